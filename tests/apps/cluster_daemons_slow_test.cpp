// Long-lived workers and servers, and poseidon-train after a request to stop.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::TinyJob;
using trainer::write_text;
namespace fs = std::filesystem;

namespace {

/// Arguments of a run of a few seconds with two workers, which are children of poseidon-train.
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

TEST_CASE("daemons that start before the coordinator train two jobs in a row") {
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

TEST_CASE("a failed daemon is named, and the other daemons wait for the next job") {
  Cluster cluster;
  Program& failed = cluster.start("poseidon-worker", "worker-a", {"--rank", "0"});
  const Program& other = cluster.start("poseidon-worker", "worker-b", {"--rank", "1"});
  cluster.start("poseidon-server", "server");
  Program train = cluster.train("run", {"--set", "train.steps=100000"});
  REQUIRE(says(train, "begin with step"));
  failed.send(SIGKILL);
  const Finished finished = train.wait();
  CHECK(finished.code == 3);
  CHECK(finished.err.find("worker 0 (127.0.0.1:") != std::string::npos);
  CHECK(says(other, "worker 0 (127.0.0.1:"));
  cluster.start("poseidon-worker", "worker-c");
  const Finished next = cluster.train("next").wait();
  CAPTURE(next.err);
  CHECK(next.code == 0);
}

TEST_CASE("a daemon reports the job it joined, the first step, and the end of the job") {
  Cluster cluster;
  const Program& worker = cluster.start("poseidon-worker", "worker-a", {"--rank", "0"});
  cluster.start("poseidon-worker", "worker-b", {"--rank", "1"});
  const Program& server = cluster.start("poseidon-server", "server");
  REQUIRE(cluster.train("run").wait().code == 0);
  for (const Program* daemon : {&worker, &server}) {
    const std::string who = daemon == &worker ? "worker" : "server";
    CHECK(says(*daemon, "joined the job \"tiny\" as " + who + " 0\nbegins with step 1\n"));
    CHECK(says(*daemon, "\nthe job is done\n"));
  }
}

TEST_CASE(
    "a daemon that receives SIGTERM reports it to the coordinator, and a checkpoint remains") {
  Cluster cluster;
  Program& leaving = cluster.start("poseidon-worker", "worker");
  Program& server = cluster.start("poseidon-server", "server");
  Program train = cluster.train("run", {"--set", "train.steps=1000000"}, "1", "1");
  REQUIRE(says(train, "step 2/"));
  leaving.send(SIGTERM);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 3);
  CHECK(finished.err.find("poseidon-train: worker 0 (127.0.0.1:") != std::string::npos);
  CHECK(finished.err.find(": it received a stop signal; the last checkpoint is ") !=
        std::string::npos);
  CHECK(leaving.wait().code == 0);
  server.send(SIGTERM);  // between two jobs
  CHECK(server.wait().code == 0);
}

TEST_CASE("a daemon keeps its port open between two jobs") {
  Cluster cluster;
  const std::string place = free_address();
  const Program& server = cluster.start("poseidon-server", "server", {"--listen", place});
  cluster.start("poseidon-worker", "worker-a");
  cluster.start("poseidon-worker", "worker-b");
  REQUIRE(cluster.train("run").wait().code == 0);
  REQUIRE(says(server, "the job is done"));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (int i = 0; i < 100; ++i) {
    CHECK(is_listening(place));
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST_CASE("coordinator and worker both report different secrets") {
  Cluster cluster;
  write_text(cluster.job.folder / "other", std::string(32, 'o'));
  const Program& worker = cluster.start("poseidon-worker", "worker", {}, "other");
  Program train = cluster.train("run");
  CHECK(says(worker, "different secrets"));
  CHECK(says(train, "different secrets"));
  train.send(SIGKILL);
  train.wait();
}

TEST_CASE("SIGINT ends a job after a step, and the resumed job gives the same bits") {
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

TEST_CASE("a job with one worker and a server has the bits of a run without a server") {
  Cluster cluster;
  cluster.start("poseidon-worker", "worker");
  cluster.start("poseidon-server", "server");
  for (const std::vector<std::string>& job :
       std::vector<std::vector<std::string>>{{},
                                             {"--set", "cluster.logical_shards=3"},
                                             {"--set", "comm.staleness=2"},
                                             {"--set", "comm.scheme=sfb"}}) {
    std::vector<std::string> words{"--set", "data.global_batch=9"};
    words.insert(words.end(), job.begin(), job.end());
    const std::string name = job.empty() ? "plain" : job.back();
    CAPTURE(name);
    const Finished joined = cluster.train(name, words, "1", "1").wait();
    CAPTURE(joined.err);
    REQUIRE(joined.code == 0);
    words.insert(words.end(), {(cluster.job.folder / "job.json").string(), "--json", "--output",
                               (cluster.job.folder / (name + "-alone")).string()});
    const Finished alone = Program("poseidon-train", words, cluster.job.folder).wait();
    CHECK(Json::parse(joined.out)["weights_sha256"] == Json::parse(alone.out)["weights_sha256"]);
  }
}
