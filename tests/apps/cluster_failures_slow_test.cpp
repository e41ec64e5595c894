// Runs of several processes that fail without an external fault. All nodes must report the real
// cause, none may crash, and daemons must accept the next job.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/cluster.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
using trainer::write_text;
namespace fs = std::filesystem;

namespace {

/// Replaces the folder by a file, so that later writes into it fail.
void spoil(const fs::path& folder) {
  REQUIRE(within(5, [&] {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    write_text(folder, "");
    return fs::is_regular_file(folder);
  }));
}

}  // namespace

TEST_CASE(
    "a checkpoint that cannot be written ends the run, and every member's log states the reason") {
  const TinyJob job;
  Program train("poseidon-train",
                {(job.folder / "job.json").string(), "--workers", "2", "--servers", "2", "--output",
                 (job.folder / "run").string(), "--set", "train.steps=1000000", "--set",
                 "train.checkpoint_every=50"},
                job.folder);
  REQUIRE(says(train, "begin with step"));
  spoil(job.folder / "run" / "checkpoints");
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 1);
  CHECK(finished.err.find("poseidon-train: the coordinator failed in step ") != std::string::npos);
  CHECK(finished.err.find((job.folder / "run" / "checkpoints").string()) != std::string::npos);
  for (const char* member : {"worker-0", "worker-1", "server-0", "server-1"}) {
    const std::string log = read_text(job.folder / "run" / "logs" / (std::string(member) + ".log"));
    CAPTURE(log);
    CHECK(log.find("warning: the coordinator failed in step ") != std::string::npos);
  }
  CHECK(Json::parse(read_text(job.folder / "run" / "summary.json")).contains("failure"));
}

TEST_CASE("a loss that is not finite ends the job, and its daemons train the next job") {
  Cluster cluster;
  cluster.start("poseidon-worker", "worker-a");
  cluster.start("poseidon-worker", "node-b", {"--server-listen", "127.0.0.1:0"});
  for (const char* scheme : {"ps", "sfb"}) {
    const std::string name = scheme;
    const std::vector<std::string> by_scheme{"--set", "comm.scheme=" + name};
    std::vector<std::string> wrong = by_scheme;
    wrong.insert(wrong.end(), {"--set", "optimizer.learning_rate=1e30"});
    const Finished diverged = cluster.train(name + "-wrong", wrong).wait();
    CAPTURE(diverged.err);
    CHECK(diverged.code == 1);
    CHECK(diverged.err.find("the loss is ") != std::string::npos);
    const Finished finished = cluster.train(name + "-good", by_scheme).wait();
    CAPTURE(finished.err);
    CHECK(finished.code == 0);
  }
}
