// Workers with servers in their processes.

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "core/json.h"
#include "tests/apps/cluster.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

std::set<std::string> sockets_of(pid_t pid) {
  std::set<std::string> inodes;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code closed_by_now;
    const std::string target = std::filesystem::read_symlink(entry, closed_by_now).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// The local and the remote address of each TCP connection of a process.
std::set<std::pair<std::string, std::string>> connections_of(pid_t pid) {
  const std::set<std::string> inodes = sockets_of(pid);
  std::set<std::pair<std::string, std::string>> ends;
  std::istringstream table(trainer::read_text("/proc/net/tcp"));
  for (std::string line; std::getline(table, line);) {
    std::istringstream words(line);
    std::string number, own, other, state, skipped, inode;
    words >> number >> own >> other >> state;
    for (int i = 0; i < 5; ++i) words >> skipped;
    words >> inode;
    if (state == "01" && inodes.contains(inode)) ends.emplace(own, other);
  }
  return ends;
}

size_t connections_with_itself(pid_t pid) {
  const auto ends = connections_of(pid);
  return static_cast<size_t>(std::ranges::count_if(ends, [&](const auto& each) {
    return ends.contains({each.second, each.first});
  }));
}

}  // namespace

TEST_CASE("workers with servers in their processes give the same bits as separate servers") {
  Cluster cluster;
  const std::vector<std::string> with_server{"--once", "--server-listen", "127.0.0.1:0"};
  Program& first = cluster.start("poseidon-worker", "node-a", with_server);
  Program& second = cluster.start("poseidon-worker", "node-b", with_server);
  const Finished together = cluster.train("together", {}, "2").wait();
  CAPTURE(together.err);
  REQUIRE(together.code == 0);
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  // Only the daemons have the data. Worker 0 reports the classes.
  CHECK(read_json(cluster.job.folder / "together/classes.json")["classes"] ==
        Json::array({"0", "1", "2"}));
  for (const char* program : {"poseidon-worker", "poseidon-server"})
    for (const char* name : {"-a", "-b"}) cluster.start(program, std::string(program) + name);
  const Finished apart = cluster.train("apart", {}, "2").wait();
  CAPTURE(apart.err);
  REQUIRE(apart.code == 0);
  const Json one = Json::parse(together.out), other = Json::parse(apart.out);
  CHECK(one["weights_sha256"] == other["weights_sha256"]);
  CHECK(one["bytes_sent"] == other["bytes_sent"]);
}

TEST_CASE("a worker and its server need no socket; if their process fails, the others end") {
  Cluster cluster;
  const auto node = [&](const std::string& name, const std::string& rank) -> Program& {
    return cluster.start("poseidon-worker", name,
                         {"--once", "--rank", rank, "--server-listen", "127.0.0.1:0"});
  };
  Program& failed = node("node-a", "0");
  Program& other = node("node-b", "1");
  Program train = cluster.train("run", {"--set", "train.steps=100000"}, "2");
  REQUIRE(says(train, "begin with step"));
  // The worker and the server each have a connection to the coordinator, and one to the other node.
  CHECK(connections_of(failed.process()).size() >= 4);
  CHECK(connections_with_itself(failed.process()) == 0);
  failed.send(SIGKILL);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  const bool named = finished.err.find("worker 0 (127.0.0.1:") != std::string::npos ||
                     finished.err.find("server 0 (127.0.0.1:") != std::string::npos;
  CHECK(named);
  CHECK(finished.err.find("failed in step") != std::string::npos);
  CHECK(other.wait().code == 3);
}

TEST_CASE("a node whose server the job does not need ends with its worker") {
  Cluster cluster;
  const std::vector<std::string> with_server{"--once", "--server-listen", "127.0.0.1:0"};
  Program& first = cluster.start("poseidon-worker", "node-a", with_server);
  Program& second = cluster.start("poseidon-worker", "node-b", with_server);
  CHECK(cluster.train("run", {"--trace"}, "1").wait().code == 0);
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  const std::string trace = trainer::read_text(cluster.job.folder / "run" / "trace.json");
  for (const char* track : {"to server 0", "from worker 0", "from worker 1"})
    CHECK(trace.find(track) != std::string::npos);
}

TEST_CASE("a server that cannot listen ends the worker of its process") {
  Cluster cluster;
  const std::string taken = free_address();
  cluster.start("poseidon-server", "server", {"--listen", taken});
  REQUIRE(within(20, [&] { return is_listening(taken); }));
  const Finished finished =
      cluster.start("poseidon-worker", "node", {"--server-listen", taken}).wait();
  CHECK(finished.code == 1);
  CHECK(finished.err.find("cannot listen at " + taken + ": ") != std::string::npos);
}

TEST_CASE("one worker with a server in its process trains, and stops cleanly at SIGTERM") {
  Cluster cluster;
  Program& node =
      cluster.start("poseidon-worker", "node", {"--once", "--server-listen", "127.0.0.1:0"});
  Program train = cluster.train("run", {"--set", "train.steps=1000000"}, "1", "1");
  REQUIRE(says(train, "step 2/"));
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 0);
  CHECK(node.wait().code == 0);
  const Json summary = Json::parse(finished.out);
  CHECK(summary["steps"].get<int64_t>() > 1);
  CHECK(std::filesystem::exists(summary["checkpoint"].get<std::string>()));
}
