// The program itself: exit codes, what goes where, signals.

#include <doctest/doctest.h>

#include "core/json.h"
#include "tests/apps/program.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

Finished run(const TinyJob& job, std::vector<std::string> words) {
  words.insert(words.begin(), (job.folder / "job.json").string());
  return Program("poseidon-train", words, job.folder).wait();
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a run ends with 0 and its summary as one JSON object") {
  const TinyJob job;
  const std::string output = (job.folder / "run").string();
  const Finished finished = run(job, {"--output", output, "--json"});
  CHECK(finished.code == 0);
  const Json summary = Json::parse(finished.out);
  CHECK(summary["steps"] == 9);
  CHECK(Json::parse(read_text(job.folder / "run/summary.json")) == summary);
  CHECK(has(finished.err, "step 8/9"));
  CHECK(has(finished.err, "test loss"));
}

TEST_CASE("--max-steps stops, --resume goes on to the same bits, also without a job file") {
  const TinyJob job;
  const std::string run_folder = (job.folder / "run").string();
  const Finished whole = run(job, {"--output", (job.folder / "whole").string(), "--json"});
  const Finished first = run(job, {"--output", run_folder, "--max-steps", "4", "--json"});
  CHECK(first.code == 0);
  CHECK(Json::parse(first.out)["steps"] == 4);
  const Finished second =
      Program("poseidon-train", {"--resume", run_folder, "--json"}, job.folder).wait();
  CHECK(second.code == 0);
  CHECK(Json::parse(second.out)["weights_sha256"] == Json::parse(whole.out)["weights_sha256"]);
}

TEST_CASE("--check prints the network; missing data is a warning there and an error in a run") {
  const TinyJob job;
  const std::vector<std::string> missing{"--set", "data.train.type=mnist", "--set",
                                         "data.train.path=${NOWHERE}/mnist"};
  std::vector<std::string> check = missing;
  check.insert(check.end(), {"--check", "--json"});
  const Finished checked = run(job, check);
  CHECK(checked.code == 0);
  const Json summary = Json::parse(checked.out);
  CHECK(summary["name"] == "tiny");
  CHECK(summary["parameters"] == 5 * 2 * 9 + 10 + 3 * 80 + 3);
  CHECK(summary["layers"][0]["output_shape"] == Json{8, 5, 4, 4});
  CHECK(has(checked.err, "warning: "));
  CHECK(has(checked.err, "the variable NOWHERE is not set"));

  const Finished refused = run(job, missing);
  CHECK(refused.code == 2);
  CHECK(
      has(refused.err, "/data/train/path: \"${NOWHERE}/mnist\": the variable NOWHERE is not set"));
}

TEST_CASE("--check refuses what the run would refuse of its first sample") {
  const TinyJob job;
  const Finished checked =
      run(job, {"--check", "--set", "data.train.transform.random_resized_crop.size=6"});
  CHECK(checked.code == 2);
  CHECK(has(checked.err, "job.json: /data/train: random #0: samples of floats are not resized"));
}

TEST_CASE("--plan prints what a number of workers would move, --times feeds it") {
  const TinyJob job;
  const Finished plan = run(job, {"--plan", "--workers", "5", "--servers", "3", "--json"});
  CHECK(plan.code == 0);
  const Json json = Json::parse(plan.out);
  CHECK(json["workers"] == 5);
  CHECK(json["servers"] == 3);
  CHECK(json["batch_per_worker"] == 8.0);
  CHECK(json["layers"].size() == 3);
  const Finished table = run(job, {"--plan", "--workers", "5"});
  CHECK(has(table.out, "5 workers, 5 servers, 8 samples a worker"));
  CHECK_FALSE(has(table.out, "predicted"));

  const Finished timed = run(job, {"--time", "--json"});
  trainer::write_text(job.folder / "times.json", timed.out);
  const std::vector<std::string> by_time{"--plan",
                                         "--workers",
                                         "5",
                                         "--set",
                                         "comm.policy=time",
                                         "--set",
                                         "comm.link_mbps=100",
                                         "--times",
                                         (job.folder / "times.json").string()};
  CHECK(has(run(job, by_time).out, "a step is predicted to take "));
  const Finished lacking = run(job, {by_time.begin(), by_time.begin() + 5});
  CHECK(lacking.code == 2);
  CHECK(has(lacking.err, "\"comm.policy\": \"time\" needs measured times"));
}

TEST_CASE("usage and config errors end with 2 and one line") {
  const TinyJob job;
  const auto refused = [&](std::vector<std::string> words) {
    const Finished finished = run(job, std::move(words));
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
    return finished.err;
  };
  CHECK(has(refused({"--set", "optimizer.momentun=1"}), "did you mean \"momentum\"?"));
  CHECK(has(refused({"--no-such-flag"}), "--no-such-flag"));
  CHECK(has(refused({"--times", "t.json"}), "--times t.json: expected --plan beside it"));
  CHECK(has(refused({"--external"}), "--external: expected --listen ADDR:PORT beside it"));
  CHECK(has(refused({"--listen", "127.0.0.1:0"}), "expected --external beside it"));
  CHECK(has(refused({"--device", "cpu:2"}), "distributed training, which is not in this build"));
  CHECK(has(refused({"--device", "cuda"}), "this build computes on \"cpu\" only"));
  CHECK(has(refused({"--check", "--time"}), "expected at most one of"));
  CHECK(has(refused({"--resume", "/no/run"}), "--resume /no/run: no such run directory or file"));
  const Finished none = Program("poseidon-train", {"/no/job.json"}, job.folder).wait();
  CHECK(none.code == 2);
  CHECK(has(none.err, "/no/job.json: cannot be read"));
  CHECK(Program("poseidon-train", {}, job.folder).wait().code == 2);
}

TEST_CASE("a run that fails ends with 1") {
  const TinyJob job;
  const Finished finished =
      run(job, {"--output", (job.folder / "run").string(), "--set", "optimizer.learning_rate=1e30",
                "--set", "optimizer.schedule=null"});
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "poseidon-train: step "));
  CHECK(has(finished.err, "the loss is "));
}

TEST_CASE("SIGTERM and SIGINT end the step, write a checkpoint and a summary") {
  for (const int signal : {SIGTERM, SIGINT}) {
    const TinyJob job;
    const fs::path output = job.folder / "run";
    Program program("poseidon-train",
                    {(job.folder / "job.json").string(), "--output", output.string(), "--set",
                     "train.steps=100000000", "--set", "train.log_every=1"},
                    job.folder);
    REQUIRE(eventually([&] { return program.err().find("step 3/") != std::string::npos; }));
    program.send(signal);
    const Finished finished = program.wait();
    CHECK(finished.code == 0);
    CHECK(has(finished.err, "stopped after step "));
    const Json summary = Json::parse(read_text(output / "summary.json"));
    const auto steps = summary["steps"].get<int64_t>();
    CHECK(steps >= 3);
    CHECK(fs::exists(output / "checkpoints" / ("step-" + std::to_string(steps) + ".state")));
  }
}

TEST_CASE("--schema prints what editors need, --version and --help answer") {
  const TinyJob job;
  const auto answer = [&](std::vector<std::string> words) {
    const Finished finished = Program("poseidon-train", words, job.folder).wait();
    CHECK(finished.code == 0);
    return finished.out;
  };
  CHECK(Json::parse(answer({"--schema", "job"}))["title"] == "Poseidon job");
  CHECK(has(answer({"--version"}), "poseidon-train "));
  CHECK(has(answer({"--help"}), "--resume"));
}
