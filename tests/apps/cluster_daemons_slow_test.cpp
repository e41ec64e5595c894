// Long-lived workers and servers, and poseidon-train when it is asked to stop.

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <sys/socket.h>

#include <deque>

#include "core/json.h"
#include "tests/apps/program.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::TinyJob;
using trainer::write_text;
namespace fs = std::filesystem;

namespace {

/// "127.0.0.1:PORT" with a port that was free a moment ago.
std::string free_address() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof place;
  bind(listener, reinterpret_cast<sockaddr*>(&place), length);
  getsockname(listener, reinterpret_cast<sockaddr*>(&place), &length);
  close(listener);
  return "127.0.0.1:" + std::to_string(ntohs(place.sin_port));
}

/// A job of two workers and a server, and the daemons for it, which end with this.
class Cluster {
 public:
  Cluster() { write_text(job.folder / "secret", std::string(32, 's')); }
  ~Cluster() {
    for (Program& daemon : daemons_) end(daemon);
  }

  Program& start(const std::string& program, const std::string& name,
                 std::vector<std::string> more = {}, const std::string& secret = "secret") {
    const fs::path folder = job.folder / name;
    fs::create_directories(folder);
    std::vector<std::string> words{"--coordinator", address, "--secret-file",
                                   (job.folder / secret).string()};
    if (program == "poseidon-worker") words.insert(words.end(), {"--threads", "1"});
    words.insert(words.end(), more.begin(), more.end());
    daemons_.push_back(Program(program, words, folder));
    return daemons_.back();
  }

  void end(Program& daemon) {
    daemon.send(SIGKILL);
    daemon.wait();
  }

  Program train(const std::string& output, const std::vector<std::string>& more = {}) {
    fs::create_directories(job.folder / (output + "-words"));
    std::vector<std::string> words{(job.folder / "job.json").string(),
                                   "--workers",
                                   "2",
                                   "--servers",
                                   "1",
                                   "--listen",
                                   address,
                                   "--external",
                                   "--secret-file",
                                   (job.folder / "secret").string(),
                                   "--json",
                                   "--output",
                                   (job.folder / output).string()};
    words.insert(words.end(), more.begin(), more.end());
    return Program("poseidon-train", words, job.folder / (output + "-words"));
  }

  const TinyJob job;
  const std::string address = free_address();

 private:
  std::deque<Program> daemons_;
};

bool says(const Program& program, const std::string& words) {
  return eventually([&] { return program.err().find(words) != std::string::npos; });
}

/// Two workers that take a few seconds, in this process's children.
std::vector<std::string> local_words(const TinyJob& job, const std::string& output) {
  return {(job.folder / "job.json").string(),
          "--threads",
          "1",
          "--json",
          "--output",
          (job.folder / output).string(),
          "--set",
          "cluster.logical_shards=4",
          "--set",
          "data.global_batch=8",
          "--set",
          "train.steps=4000"};
}

std::vector<std::string> with(std::vector<std::string> words, std::vector<std::string> more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("daemons that are there first take part in one job after another") {
  Cluster cluster;
  const Program& worker = cluster.start("poseidon-worker", "worker-a");
  cluster.start("poseidon-worker", "worker-b");
  cluster.start("poseidon-server", "server");
  CHECK(says(worker, "cannot be reached"));
  std::string first;
  for (const char* output : {"first", "second"}) {
    const Finished finished = cluster.train(output).wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    const auto digest = Json::parse(finished.out)["weights_sha256"].get<std::string>();
    if (first.empty()) first = digest;
    CHECK(digest == first);
  }
}

TEST_CASE("a daemon that is lost is named, the others wait for the next job") {
  Cluster cluster;
  Program& lost = cluster.start("poseidon-worker", "worker-a", {"--rank", "0"});
  const Program& other = cluster.start("poseidon-worker", "worker-b", {"--rank", "1"});
  cluster.start("poseidon-server", "server");
  Program train = cluster.train("run", {"--set", "train.steps=100000"});
  REQUIRE(says(train, "begin with step"));
  lost.send(SIGKILL);
  const Finished finished = train.wait();
  CHECK(finished.code == 3);
  CHECK(finished.err.find("worker 0 (127.0.0.1:") != std::string::npos);
  CHECK(says(other, "worker 0 (127.0.0.1:"));
  cluster.start("poseidon-worker", "worker-c");
  const Finished next = cluster.train("next").wait();
  CAPTURE(next.err);
  CHECK(next.code == 0);
}

TEST_CASE("another secret is told of on both sides") {
  Cluster cluster;
  write_text(cluster.job.folder / "other", std::string(32, 'o'));
  const Program& worker = cluster.start("poseidon-worker", "worker", {}, "other");
  Program train = cluster.train("run");
  CHECK(says(worker, "secret of this cluster"));
  CHECK(says(train, "secret of this cluster"));
  train.send(SIGKILL);
  train.wait();
}

TEST_CASE("SIGINT ends a job after a step, which continues to the same bits") {
  const TinyJob job;
  const std::vector<std::string> alone = with(local_words(job, "alone"), {"--workers", "1"});
  const Json whole = Json::parse(Program("poseidon-train", alone, job.folder).wait().out);
  Program train("poseidon-train", with(local_words(job, "run"), {"--workers", "2"}), job.folder);
  REQUIRE(says(train, "begin with step"));
  train.send(SIGINT);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  const Json part = Json::parse(finished.out);
  CHECK_FALSE(part["finished"].get<bool>());
  const Finished resumed =
      Program("poseidon-train",
              {"--resume", (job.folder / "run").string(), "--workers", "3", "--json"}, job.folder)
          .wait();
  CAPTURE(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(resumed.err.find("warning") == std::string::npos);
  CHECK(Json::parse(resumed.out)["weights_sha256"] == whole["weights_sha256"]);
}
