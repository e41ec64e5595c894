// Workers that have servers in their own processes.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"

using namespace poseidon;
using namespace poseidon::apps;

TEST_CASE("workers may have servers in their own processes, for the same bits") {
  Cluster cluster;
  const std::vector<std::string> with_server{"--once", "--server-listen", "127.0.0.1:0"};
  Program& first = cluster.start("poseidon-worker", "node-a", with_server);
  Program& second = cluster.start("poseidon-worker", "node-b", with_server);
  const Finished together = cluster.train("together", {}, "2").wait();
  CAPTURE(together.err);
  REQUIRE(together.code == 0);
  CHECK(first.wait().code == 0);
  CHECK(second.wait().code == 0);
  for (const char* program : {"poseidon-worker", "poseidon-server"})
    for (const char* name : {"-a", "-b"}) cluster.start(program, std::string(program) + name);
  const Finished apart = cluster.train("apart", {}, "2").wait();
  CAPTURE(apart.err);
  REQUIRE(apart.code == 0);
  const Json one = Json::parse(together.out), other = Json::parse(apart.out);
  CHECK(one["weights_sha256"] == other["weights_sha256"]);
  CHECK(one["bytes_sent"] == other["bytes_sent"]);
}

TEST_CASE("a worker that is lost with its server is named once, and the others end") {
  Cluster cluster;
  const auto node = [&](const std::string& name, const std::string& rank) -> Program& {
    return cluster.start("poseidon-worker", name,
                         {"--once", "--rank", rank, "--server-listen", "127.0.0.1:0"});
  };
  Program& lost = node("node-a", "0");
  Program& other = node("node-b", "1");
  Program train = cluster.train("run", {"--set", "train.steps=100000"}, "2");
  REQUIRE(says(train, "begin with step"));
  lost.send(SIGKILL);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  const bool named = finished.err.find("worker 0 (127.0.0.1:") != std::string::npos ||
                     finished.err.find("server 0 (127.0.0.1:") != std::string::npos;
  CHECK(named);
  CHECK(finished.err.find("was lost in step") != std::string::npos);
  CHECK(other.wait().code == 3);
}

TEST_CASE("a server that cannot listen ends the worker that has it") {
  Cluster cluster;
  const std::string address = free_address();
  const Finished finished =
      cluster.start("poseidon-worker", "node", {"--listen", address, "--server-listen", address})
          .wait();
  CHECK(finished.code == 1);
  CHECK(finished.err.find("cannot listen at " + address + ": ") != std::string::npos);
}
