// The programs with --device cuda, on a GPU that the host plays.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/program.h"

using namespace poseidon;
using namespace poseidon::apps;
using poseidon::trainer::TinyJob;

namespace {

/// Runs the tiny job so, and returns its summary.
Json train(const TinyJob& job, std::vector<std::string> words) {
  words.insert(words.begin(), {"--device", "cuda", "--json"});
  const Finished finished =
      Program(POSEIDON_PLAYED_PROGRAMS "/poseidon-train", words, job.folder).wait();
  INFO(finished.err);
  REQUIRE(finished.code == 0);
  return Json::parse(finished.out);
}

std::vector<std::string> beginning(const TinyJob& job, const std::string& output,
                                   std::vector<std::string> words = {}) {
  words.insert(words.begin(), {(job.folder / "job.json").string(), "--output",
                               (job.folder / output).string(), "--set", "train.steps=6"});
  return words;
}

std::string weights(const Json& summary) { return summary["weights_sha256"].get<std::string>(); }

}  // namespace

TEST_CASE("programs on a played GPU: a run that is stopped goes on to the same bits") {
  const TinyJob job;
  const std::string whole = weights(train(job, beginning(job, "whole")));
  const std::string part = weights(train(job, beginning(job, "part", {"--max-steps", "3"})));
  CHECK(part != whole);
  CHECK(weights(train(job, {"--resume", (job.folder / "part").string()})) == whole);
}

TEST_CASE("programs on a played GPU: any number of workers has the same bits") {
  const TinyJob job;
  const std::vector<std::string> shards{"--set", "cluster.logical_shards=4", "--set",
                                        "data.global_batch=16"};
  const auto with = [&](const char* workers, const char* scheme) {
    std::vector<std::string> words = shards;
    words.insert(words.end(),
                 {"--workers", workers, "--set", std::string("comm.scheme=") + scheme});
    return weights(train(job, beginning(job, std::string(scheme) + workers, words)));
  };
  for (const char* scheme : {"ps", "sfb"}) {
    const std::string alone = with("1", scheme);
    CHECK(with("2", scheme) == alone);
    CHECK(with("4", scheme) == alone);
  }
}

TEST_CASE("programs on a played GPU: every precision trains, and plan.json says what computed") {
  const TinyJob job;
  for (const std::string precision : {"fp32", "tf32", "bf16"}) {
    const Json summary =
        train(job, beginning(job, precision, {"--set", "device.precision=" + precision}));
    CHECK(summary["device"] == "cuda");
    const Json plan = Json::parse(trainer::read_text(job.folder / precision / "plan.json"));
    CHECK(plan["devices"][0]["arithmetic"] ==
          "a played GPU, CUDA 13.0, loops of the host, " + precision);
  }
}

TEST_CASE("programs on a played GPU: a GPU that is not there is refused in a line") {
  const TinyJob job;
  const Finished refused =
      Program(POSEIDON_PLAYED_PROGRAMS "/poseidon-train",
              {(job.folder / "job.json").string(), "--device", "cuda:3"}, job.folder)
          .wait();
  CHECK(refused.code == 2);
  CHECK(refused.err.find("this machine has 1 GPU") != std::string::npos);
  CHECK(std::ranges::count(refused.err, '\n') == 1);
}
