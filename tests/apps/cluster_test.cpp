// Real processes over loopback: workers and servers that poseidon-train starts itself.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/json.h"
#include "tests/apps/cluster.h"
#include "tests/apps/colour_images.h"
#include "tests/trainer/small_networks.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;

namespace {

struct Size {
  int workers = 1, servers = 0;
  const char* device = "cpu";
};

/// Summary of a run of a job with 4 logical shards.
Json run(const TinyJob& job, Size cluster, std::vector<std::string> words) {
  const std::string output = (job.folder / ("run-" + std::to_string(cluster.workers))).string();
  std::filesystem::remove_all(output);
  words.insert(words.begin(),
               {(job.folder / "job.json").string(), "--json", "--output", output, "--threads", "1",
                "--workers", std::to_string(cluster.workers), "--set", "data.global_batch=8",
                "--set", "data.train.transform.mirror=true", "--set", "cluster.logical_shards=4"});
  if (cluster.servers > 0)
    words.insert(words.end(), {"--servers", std::to_string(cluster.servers)});
  const Finished finished = Program("poseidon-train", words, job.folder).wait();
  CAPTURE(finished.err);
  REQUIRE(finished.code == 0);
  return Json::parse(finished.out);
}

/// Checks the bytes that a layer has moved. Zeros of factors are planned, but not sent.
void check_bytes(const Json& layer) {
  if (layer["scheme"] == "sfb")
    CHECK(layer["bytes"] <= layer["planned_bytes"]);
  else
    CHECK(layer["bytes"] == layer["planned_bytes"]);
}

void same_with_any_cluster(const std::vector<std::string>& words, const TinyJob& job = TinyJob()) {
  const Json one = run(job, {1, 0}, words);
  for (const Size cluster : {Size{2, 1}, Size{3, 2}, Size{2, 1, "cpu,cpu"}}) {
    std::vector<std::string> with_device = words;
    with_device.insert(with_device.end(), {"--device", cluster.device});
    const Json several = run(job, cluster, with_device);
    CAPTURE(cluster.workers);
    CAPTURE(std::string(cluster.device));
    CHECK(several["weights_sha256"] == one["weights_sha256"]);
    CHECK(several["state_sha256"] == one["state_sha256"]);
    CHECK(several["train_loss"] == one["train_loss"]);
    CHECK(several["test_loss"] == one["test_loss"]);
    CHECK(several["test_top1"] == one["test_top1"]);
    for (const Json& layer : several["layers"]) check_bytes(layer);
  }
}

}  // namespace

TEST_CASE("any number of workers and servers gives the same bits and the same test result") {
  for (const char* scheme : {"ps", "sfb"}) {
    CAPTURE(scheme);
    same_with_any_cluster({"--set", std::string("comm.scheme=") + scheme});
  }
}

TEST_CASE("logical shards by speed: the same bits, also on workers of several devices") {
  same_with_any_cluster({"--set", "cluster.balance=speed"});
}

namespace {

/// Any number of workers must give the same bits, on transformed images of two classes.
void same_with_transform(const std::string& transform) {
  const TinyJob job(kColourNetwork);
  const std::string images = varied_images(job.folder / "images");
  const auto data = [&](const std::string& more) {
    return images.substr(0, images.size() - 1) + ", \"transform\": {" + more + "}}";
  };
  same_with_any_cluster({"--set", "data.train=" + data("\"scale\": 0.01, " + transform), "--set",
                         "data.test=" + data("\"scale\": 0.01, \"resize\": [6, 6]")},
                        job);
}

}  // namespace

TEST_CASE("random resized crops: the same bits on any number of workers") {
  same_with_transform(R"("random_resized_crop": {"size": [6, 6], "area": [0.3, 1]})");
}
TEST_CASE("color jitter: the same bits on any number of workers") {
  same_with_transform(R"("crop": [6, 6],
      "jitter": {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1})");
}

TEST_CASE("mixup and cutmix: the same bits on any number of workers") {
  same_with_any_cluster(
      {"--set", R"(data.train.transform.mix={"mixup": 0.4, "cutmix": 1, "probability": 0.9})"});
}
TEST_CASE("layers of only one phase: the same bits on any number of workers") {
  for (const char* scheme : {"ps", "sfb"})
    same_with_any_cluster({"--set", std::string("comm.scheme=") + scheme, "--set",
                           "train.test_every=2", "--set", "optimizer.average_decay=0.9"},
                          TinyJob(trainer::kPhased));
}
TEST_CASE("auxiliary inputs: the same bits on any number of workers") {
  for (const char* scheme : {"ps", "sfb"}) {
    std::vector<std::string> words;
    for (const std::string& given : trainer::with_extras({std::string("comm.scheme=") + scheme}))
      words.insert(words.end(), {"--set", given});
    same_with_any_cluster(words, TinyJob(trainer::kTwoInputs));
  }
}
TEST_CASE("infogain loss: the same bits on any number of workers") {
  same_with_any_cluster({}, TinyJob(R"({
    "name": "n", "input": {"channels": 2, "height": 6, "width": 6}, "layers": [
      {"name": "f", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
      {"name": "loss", "type": "infogain_loss", "matrix": [1, 0, 0.5, 0, 2, 0, -0.25, 0, 1]}]})"));
}

TEST_CASE("a plan with unequal shard ranges in another order than the ranks gives the same bits") {
  for (const std::string scheme : {"ps", "sfb"}) {
    CAPTURE(scheme);
    const TinyJob job;
    const Json even = run(job, {2, 1}, {"--set", "comm.scheme=" + scheme});
    Json plan = Json::parse(read_text(job.folder / "run-2" / "plan.json"));
    Json& workers = plan["assignment"]["workers"];
    workers[0]["first_shard"] = 1;
    workers[0]["shards"] = 3;
    workers[1]["first_shard"] = 0;
    workers[1]["shards"] = 1;
    const std::string file = (job.folder / "unequal.json").string();
    trainer::write_text(file, plan.dump());
    const Json unequal = run(job, {2, 1}, {"--set", "comm.plan=" + file});
    const Json used = Json::parse(read_text(job.folder / "run-2" / "plan.json"));
    CHECK(used["assignment"] == plan["assignment"]);
    CHECK(unequal["weights_sha256"] == even["weights_sha256"]);
    CHECK(unequal["train_loss"] == even["train_loss"]);
    for (const Json& layer : unequal["layers"]) check_bytes(layer);
  }
}

TEST_CASE("layers without trained parameters work at any position: the same bits on any cluster") {
  const auto network = [](const std::string& layers) {
    return R"({"name": "n", "input": {"channels": 2, "height": 6, "width": 6}, "layers": [)" +
           layers + R"(, {"name": "loss", "type": "softmax_loss"}]})";
  };
  const std::string frozen = R"("type": "linear", "outputs": 3, "learning_rate_multipliers": [0, 0],
                                "weight_filler": {"type": "xavier"}})";
  const std::string norm = R"("type": "batch_norm", "learning_rate_multipliers": [0, 0]})";
  const std::string learns = R"({"name": "f", "type": "linear", "outputs": 3})";
  const std::string unread = R"({"name": "unread", "type": "linear", "outputs": 9})";
  for (const std::string& layers :
       {R"({"name": "first", )" + frozen + "," + learns, learns + R"(, {"name": "last", )" + frozen,
        learns + "," + unread + R"(, {"name": "read", "type": "relu", "input": "f"})",
        R"({"name": "norm", )" + norm + R"(, {"name": "only", )" + frozen}) {
    CAPTURE(layers);
    const TinyJob job(network(layers).c_str());
    CHECK(run(job, {1, 0}, {})["weights_sha256"] == run(job, {2, 1}, {})["weights_sha256"]);
  }
}

TEST_CASE("wire format bf16 does not round running statistics") {
  const TinyJob job;
  // The mean is far from zero, so rounding would change it by a large part of the deviation. The
  // learning rate is zero, so a test depends only on the statistics.
  const auto test_loss = [&](const std::string& wire) {
    return run(job, {2, 1},
               {"--set", "comm.wire=" + wire, "--set", "data.train.transform.mean=-100", "--set",
                "data.train.transform.scale=1", "--set", "data.test.transform.mean=-100", "--set",
                "network=" + (job.folder / "mean.json").string(), "--set",
                "optimizer.learning_rate=0"})["test_loss"]
        .get<double>();
  };
  trainer::write_text(
      job.folder / "mean.json",
      R"({"name": "n", "input": {"channels": 2, "height": 6, "width": 6}, "layers": [
                          {"name": "bn", "type": "batch_norm"},
                          {"name": "f", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
                          {"name": "loss", "type": "softmax_loss"}]})");
  CHECK(test_loss("bf16") == test_loss("fp32"));
}

TEST_CASE("each layer moves the bytes that the plan predicts, or fewer with factors") {
  const TinyJob job;
  for (const char* wire : {"fp32", "bf16"}) {
    CAPTURE(wire);
    run(job, {3, 2}, {"--set", std::string("comm.wire=") + wire});
    const Json traffic = Json::parse(read_text(job.folder / "run-3/traffic.json"));
    REQUIRE(traffic["layers"].size() > 1);
    for (const Json& layer : traffic["layers"])
      check_bytes(
          {{"scheme", layer["scheme"]},
           {"bytes", layer["bytes_sent"].get<int64_t>() + layer["bytes_received"].get<int64_t>()},
           {"planned_bytes", layer["planned_bytes"]}});
  }
}

TEST_CASE("with wire int8, a run warns of gradients below the range, and counts them") {
  Json network = Json::parse(trainer::kTinyNetwork);
  for (const bool tiny_gradients : {false, true}) {
    CAPTURE(tiny_gradients);
    if (tiny_gradients) network["layers"].back()["weight"] = 3e-9;
    const TinyJob job(network.dump().c_str());
    const Finished finished = Program("poseidon-train",
                                      {(job.folder / "job.json").string(), "--output",
                                       (job.folder / "run").string(), "--workers", "2", "--servers",
                                       "1", "--set", "comm.wire=int8", "--set", "comm.scheme=ps"},
                                      job.folder)
                                  .wait();
    CAPTURE(finished.err);
    REQUIRE(finished.code == 0);
    const Json blocks = Json::parse(read_text(job.folder / "run/traffic.json"))["int8_blocks"];
    CHECK(blocks["all"] == 2 * 9 * 2);  // workers, steps, weights of one block each
    CHECK(blocks["below"] == (tiny_gradients ? 36 : 0));
    CHECK(blocks["beyond"] == 0);
    const std::string warning =
        "warning: \"comm.wire\": \"int8\": values of 36 of 36 blocks of gradients are below its "
        "finest "
        "step, 2^-36; expected \"bf16\" or \"fp32\"";
    CHECK((finished.err.find(warning) != std::string::npos) == tiny_gradients);
  }
}

TEST_CASE("a trace contains all processes and the spans of their steps") {
  const TinyJob job;
  const Json summary = run(job, {2, 1}, {"--trace"});
  const Json trace = Json::parse(read_text(job.folder / "run-2/trace.json"));
  std::map<int64_t, std::string> processes;
  std::map<std::string, std::set<std::string>> categories;
  double before = 0;
  for (const Json& event : trace["traceEvents"]) {
    const auto process = event["pid"].get<int64_t>();
    if (event["name"] == "process_name") processes[process] = event["args"]["name"];
    if (event["ph"] != "X") continue;
    CHECK(event["ts"].get<double>() >= before);
    before = event["ts"];
    CHECK(event["dur"].get<double>() >= 0);
    categories[processes[process]].insert(event["cat"]);
  }
  const std::set<std::string> of_worker{"forward", "backward", "update", "wait", "send", "receive"};
  const std::set<std::string> of_server{"send", "receive", "sum"};
  REQUIRE(processes.size() == 3);
  for (const auto& process : processes) {
    const std::string& name = process.second;
    CAPTURE(name);
    const auto& expected = name.starts_with("worker") ? of_worker : of_server;
    CHECK(std::ranges::includes(categories[name], expected));
  }
  CHECK(trace["clocks"].size() == 3);
}

TEST_CASE("the summary's compute and wait times of each worker add up") {
  const TinyJob job;
  const Json summary = run(job, {3, 2}, {});
  REQUIRE(summary["time"].size() == 3);
  for (const Json& worker : summary["time"]) {
    double waits = 0;
    for (const Json& layer : worker["sum_waits"]) waits += layer["s"].get<double>();
    CHECK(waits <= worker["sum_wait_s"].get<double>() + 0.001);
    CHECK(worker["compute_s"].get<double>() > 0);
  }
  for (const Json& layer : summary["layers"]) check_bytes(layer);
  const Json traffic = Json::parse(read_text(job.folder / "run-3/traffic.json"));
  CHECK(traffic["layers"].size() == summary["layers"].size());
}

namespace {

/// A run that stops after `stop` steps and resumes with another cluster must give the bits of a run
/// that does not stop.
void same_when_resumed(Size first, Size second, int stop, std::vector<std::string> words) {
  const TinyJob job;
  const Json unbroken = run(job, {1, 0}, words);
  std::vector<std::string> broken = words;
  broken.insert(broken.end(), {"--max-steps", std::to_string(stop)});
  run(job, first, broken);
  const std::string from = "run-" + std::to_string(first.workers);
  words.insert(words.end(), {"--resume", (job.folder / from).string()});
  const Json resumed = run(job, second, words);
  CHECK(resumed["steps"] == 9);
  CHECK(resumed["weights_sha256"] == unbroken["weights_sha256"]);
  CHECK(resumed["test_loss"] == unbroken["test_loss"]);
}

/// A run that is resumed after its last step does nothing and prints its result.
void same_when_over(Size size, std::vector<std::string> words,
                    const std::vector<std::string>& shorter = {}) {
  const TinyJob job;
  const Json over = run(job, {2, 1}, words);
  words.insert(words.end(), {"--resume", (job.folder / "run-2").string()});
  words.insert(words.end(), shorter.begin(), shorter.end());
  const Json again = run(job, size, words);
  CHECK(again["steps"] == over["steps"]);
  CHECK(again["finished"] == true);
  CHECK(again["weights_sha256"] == over["weights_sha256"]);
  CHECK(again["state_sha256"] == over["state_sha256"]);
}

std::vector<std::string> late(const char* staleness, const char* scheme) {
  return {"--set", std::string("comm.staleness=") + staleness, "--set",
          std::string("comm.scheme=") + scheme};
}

}  // namespace

TEST_CASE("sums late by 1: the same bits on any number of workers, with ps") {
  same_with_any_cluster(late("1", "ps"));
}
TEST_CASE("sums late by 1: the same bits on any number of workers, with sfb") {
  same_with_any_cluster(late("1", "sfb"));
}
TEST_CASE("sums late by 2: the same bits on any number of workers, with ps") {
  same_with_any_cluster(late("2", "ps"));
}
TEST_CASE("sums late by 2: the same bits on any number of workers, with sfb") {
  same_with_any_cluster(late("2", "sfb"));
}
TEST_CASE("late sums with gradient clipping: the same bits on any number of workers") {
  std::vector<std::string> words = late("1", "auto");
  words.insert(words.end(), {"--set", "optimizer.clip_norm=0.1"});
  same_with_any_cluster(words);
}
TEST_CASE("checkpoints and tests during a run do not change the bits, on any number of workers") {
  std::vector<std::string> words = late("2", "auto");
  words.insert(words.end(), {"--set", "train.checkpoint_every=2", "--set", "train.test_every=3"});
  same_with_any_cluster(words);
}
TEST_CASE("EMA: the same values and test results on any number of workers, with any scheme") {
  for (const char* scheme : {"ps", "sfb"}) {
    std::vector<std::string> words = late("0", scheme);
    words.insert(words.end(),
                 {"--set", "optimizer.average_decay=0.9", "--set", "train.test_every=2"});
    same_with_any_cluster(words);
  }
}
TEST_CASE("EMA and sums in flight: a run of 2 workers resumes on 3 to the same bits") {
  std::vector<std::string> words = late("1", "ps");
  words.insert(words.end(), {"--set", "optimizer.average_decay=0.9"});
  same_when_resumed({2, 1}, {3, 2}, 4, words);
}
TEST_CASE("sums in flight, ps: a run of 2 workers resumes on 3 to the same bits") {
  same_when_resumed({2, 1}, {3, 2}, 4, late("1", "ps"));
}
TEST_CASE("sums in flight, sfb: a run of 3 workers resumes on 2 to the same bits") {
  same_when_resumed({3, 1}, {2, 2}, 5, late("2", "sfb"));
}
TEST_CASE("sums in flight, sfb: a run of one worker resumes on 2 to the same bits") {
  same_when_resumed({1, 0}, {2, 1}, 3, late("2", "sfb"));
}
TEST_CASE("sums in flight, ps: a run of 2 workers resumes on one after only one step") {
  same_when_resumed({2, 2}, {1, 0}, 1, late("2", "ps"));
}

TEST_CASE("a finished run that is resumed reports the same final state") {
  for (const char* staleness : {"0", "2"}) {
    same_when_over({1, 0}, late(staleness, "ps"));
    same_when_over({3, 1}, late(staleness, "ps"));
  }
  same_when_over({3, 1}, late("0", "ps"), {"--max-steps", "1"});
  same_when_over({3, 1}, late("0", "ps"), {"--set", "train.steps=3"});
}
TEST_CASE("a worker requests the rank that its launcher set in the environment") {
  for (const char* variable : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    CAPTURE(variable);
    Cluster cluster;
    Program train = cluster.train("run");
    setenv(variable, "1", 1);
    cluster.start("poseidon-worker", "a");
    unsetenv(variable);
    CHECK(says(train, "worker 1 joined"));
    train.send(SIGTERM);
    CHECK(train.wait().code == 1);
  }
}

TEST_CASE(
    "policy \"time\": a run measures link and layers once, and the resumed run keeps the plan") {
  const TinyJob job;
  const std::vector<std::string> words{"--set", "comm.policy=time", "--max-steps", "4"};
  const Json summary = run(job, {2, 1}, words);
  const std::string output = (job.folder / "run-2").string();
  const Json plan = Json::parse(read_text(output + "/plan.json"));
  CHECK(plan["policy"] == "time");
  CHECK(plan["link_mbps"].get<double>() > 0);
  CHECK(plan["predicted_step_ms"].get<double>() > 0);
  CHECK(read_text(job.folder / "stderr").find("all workers are on one host") != std::string::npos);
  const Finished resumed =
      Program("poseidon-train", {"--resume", output, "--json"}, job.folder).wait();
  CAPTURE(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(resumed.err.find("measured") == std::string::npos);
  const Json after = Json::parse(read_text(output + "/plan.json"));
  CHECK(after["link_mbps"] == plan["link_mbps"]);
  CHECK(after["layers"] == plan["layers"]);
}
