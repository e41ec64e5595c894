// Members of a job fail at random times, chosen by the seed. The job must give the same bits.

#include <doctest/doctest.h>

#include "tests/apps/cluster.h"
#include "tests/apps/recovery_rounds.h"

using namespace poseidon;
using namespace poseidon::apps;

namespace {

constexpr int kSteps = 3000;

/// One to three faults that leave at least one server and one worker.
std::vector<FaultInjection> faults_of(unsigned seed, int signal) {
  std::mt19937 random(seed);
  std::vector<std::string> members{"worker 0", "worker 1", "worker 2"};
  std::shuffle(members.begin(), members.end(), random);
  members.pop_back();
  members.push_back("server " + std::to_string(random() % 2));
  std::shuffle(members.begin(), members.end(), random);
  members.resize(1 + random() % members.size());
  std::vector<FaultInjection> faults;
  for (const std::string& target : members)
    // Some faults follow closely, during a reconfiguration.
    faults.push_back({.target = target,
                      .signal = signal,
                      .after_ms = static_cast<int>(random() % (random() % 2 == 0 ? 10 : 400))});
  return faults;
}

void play(unsigned rounds, int signal, unsigned first_seed, const std::string& scheme) {
  const RecoveryJob job(kSteps, scheme);
  const Json undisturbed = job.undisturbed();
  for (unsigned seed = first_seed; seed < first_seed + rounds; ++seed) {
    CAPTURE(seed);
    CHECK(RecoveryRound(job, undisturbed, std::to_string(seed)).go(faults_of(seed, signal)) == "");
  }
}

}  // namespace

TEST_CASE("SIGKILL of up to three members at any moment, with ps") { play(3, SIGKILL, 1000, "ps"); }

TEST_CASE("SIGKILL of up to three members at any moment, with sfb") {
  play(3, SIGKILL, 2000, "sfb");
}

TEST_CASE("SIGSTOP of up to three members at any moment") { play(2, SIGSTOP, 3000, "auto"); }

TEST_CASE(
    "daemons continue after one is killed or leaves, and train the next job with a new daemon") {
  const std::vector<std::string> more{"--set", "cluster.recover=continue",
                                      "--set", "train.steps=3000",
                                      "--set", "cluster.logical_shards=2"};
  for (const int signal : {SIGKILL, SIGTERM}) {
    CAPTURE(signal);
    Cluster cluster;
    cluster.start("poseidon-server", "server");
    Program& failed = cluster.start("poseidon-worker", "failed", {"--rank", "0"});
    Program& left = cluster.start("poseidon-worker", "left");
    Program train = cluster.train("one", more);
    REQUIRE(says(train, "begin with step"));
    failed.send(signal);
    const Finished one = train.wait();
    CAPTURE(one.err);
    REQUIRE(one.code == 0);
    CHECK(failed.wait().code == (signal == SIGTERM ? 0 : 128 + SIGKILL));
    CHECK(says(left, "the job continues without it"));
    CHECK(Json::parse(one.out)["views"].size() == 2);
    cluster.start("poseidon-worker", "another");
    const Finished two = cluster.train("two", more).wait();
    CAPTURE(two.err);
    REQUIRE(two.code == 0);
    CHECK(Json::parse(one.out)["weights_sha256"] == Json::parse(two.out)["weights_sha256"]);
  }
}

TEST_CASE("a daemon that was stopped and is back learns that the coordinator removed it") {
  Cluster cluster;
  Program& server = cluster.start("poseidon-server", "server", {"--once"});
  Program& stopped = cluster.start("poseidon-worker", "stopped", {"--rank", "1", "--once"});
  cluster.start("poseidon-worker", "other", {"--once"});
  Program train =
      cluster.train("one", {"--set", "cluster.recover=continue", "--set", "cluster.timeout_s=1",
                            "--set", "train.steps=4000", "--set", "cluster.logical_shards=2"});
  REQUIRE(says(train, "begin with step"));
  stopped.send(SIGSTOP);
  REQUIRE(says(train, "1 worker and 1 server continue"));
  stopped.send(SIGCONT);
  const Finished back = stopped.wait();
  CAPTURE(back.err);
  CHECK(back.code == 3);
  CHECK(back.err.find("the coordinator removed this node from the job: worker 1 (") !=
        std::string::npos);
  CHECK(back.err.find("no heartbeat for 1 s") != std::string::npos);
  CHECK(train.wait().code == 0);
  CHECK(server.wait().code == 0);
}
