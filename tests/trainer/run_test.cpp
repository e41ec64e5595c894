#include "trainer/run/run.h"

// Whole runs of a tiny job: repeated, stopped and resumed, sharded, clipped, damaged.

#include <doctest/doctest.h>

#include <cmath>

#include "tests/trainer/tiny_job.h"
#include "trainer/inference/test.h"
#include "trainer/measure/timing.h"
#include "trainer/state/checkpoint.h"
#include "trainer/state/safetensors.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

std::string digest(const Json& summary) { return summary["weights_sha256"].get<std::string>(); }

/// The lines of metrics.jsonl without values that depend on time.
std::vector<Json> metrics_of(const fs::path& run) {
  std::vector<Json> lines;
  std::istringstream in(read_text(run / "metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    Json json = Json::parse(line);
    for (const char* key : {"samples_per_second", "compute_ms", "wait_ms", "data_wait_ms",
                            "sum_wait_ms", "time", "elapsed_s"})
      json.erase(key);
    lines.push_back(std::move(json));
  }
  return lines;
}

const std::vector<std::vector<std::string>>& all_optimizers() {
  static const std::vector<std::vector<std::string>> kAll{
      {},
      {"optimizer.momentum=0"},
      {"optimizer.type=nesterov"},
      {"optimizer.type=adagrad"},
      {"optimizer.type=rmsprop"},
      {"optimizer.type=rmsprop", "optimizer.momentum=0.5"},
      {"optimizer.type=adadelta"},
      {"optimizer.type=adam"},
      {"optimizer.type=adamw"},
      {"optimizer.type=lars"},
      {"optimizer.clip_norm=0.1", "optimizer.l1_decay=0.001"},
      {"cluster.logical_shards=4"}};
  return kAll;
}

}  // namespace

TEST_CASE("a run writes all documented files into its directory") {
  const TinyJob job;
  const Json summary = job.run("run");
  CHECK(summary["steps"] == 9);
  CHECK(summary["workers"] == 1);
  CHECK(summary["servers"] == 0);
  CHECK(summary["device"] == "cpu");
  CHECK(summary["bytes_sent"] == 0);
  CHECK(summary["bytes_received"] == 0);
  CHECK(summary["train_loss"].is_number_float());
  CHECK(summary["test_top1"].get<double>() >= 0);
  CHECK(digest(summary).size() == 64);
  CHECK(Json::parse(read_text(job.folder / "run/summary.json")) == summary);
  for (const char* file : {"config.json", "network.json", "plan.json", "traffic.json",
                           "checkpoints/step-9.safetensors", "checkpoints/step-9.state"})
    CHECK(fs::exists(job.folder / "run" / file));

  const std::vector<Json> lines = metrics_of(job.folder / "run");
  std::vector<int64_t> steps;
  for (const Json& line : lines) steps.push_back(line["step"]);
  CHECK(steps == std::vector<int64_t>{1, 2, 4, 6, 8, 9, 9});
  CHECK(lines.back()["type"] == "test");
  CHECK(lines.back()["samples"] == 21);
  CHECK(lines[0]["epoch"].get<double>() == doctest::Approx(8.0 / 50));

  const SafetensorsFile weights(job.folder / "run/checkpoints/step-9.safetensors");
  std::string names;
  for (const auto& entry : weights.entries()) names += entry.name + " ";
  CHECK(names == "conv.weight bn.scale bn.shift ip.weight ip.bias bn.running_mean bn.running_var ");
  CHECK(weights.find("conv.weight")->shape == std::vector<int64_t>{5, 2, 3, 3});
}

TEST_CASE("a run's config.json is a job that gives the same bits") {
  const TinyJob job;
  const std::string first = digest(job.run("run"));
  SilentLog log;
  const Job again = load_job({.file = job.folder / "run/config.json"}, log);
  Console console(Console::Mode::kSilent);
  CHECK(digest(train(again, {.output = job.folder / "again"}, console)) == first);
}

TEST_CASE("the same seed gives the same bits, whatever the number of loader threads") {
  const TinyJob job;
  const std::string first = digest(job.run("a"));
  CHECK(digest(job.run("b")) == first);
  CHECK(digest(job.run("c", {"data.loader_threads=3"})) == first);
  CHECK(digest(job.run("d", {"train.seed=4"})) != first);
}

TEST_CASE("a stopped and resumed run has the bits of an uninterrupted run, with every optimizer") {
  int number = 0;
  for (const std::vector<std::string>& overrides : all_optimizers()) {
    CAPTURE(overrides.empty() ? "sgd" : overrides[0]);
    const TinyJob job;
    const std::string unbroken = digest(job.run("unbroken", overrides));
    const int64_t stop = 2 + number++ % 6;  // in the first epoch (6.25 steps) and in the second
    job.run("broken", overrides, {.max_steps = stop});
    const Json resumed = job.run("", overrides, {.resume = job.folder / "broken"});
    CHECK(digest(resumed) == unbroken);
    CHECK(resumed["steps"] == 9);
    CHECK(fs::exists(job.folder / "broken" / "checkpoints/step-9.state"));
  }
}

TEST_CASE("mixup and cutmix: a run can be stopped and resumed, with any number of loader threads") {
  const std::vector<std::string> mixed{
      R"(data.train.transform.mix={"mixup": 0.4, "cutmix": 1, "probability": 0.9})"};
  const TinyJob job;
  const std::string unbroken = digest(job.run("unbroken", mixed));
  CHECK(digest(job.run("plain")) != unbroken);
  for (const int64_t step : {3, 7}) {
    const std::string name = "broken-" + std::to_string(step);
    job.run(name, mixed, {.max_steps = step});
    CHECK(digest(job.run("", mixed, {.resume = job.folder / name})) == unbroken);
  }
  std::vector<std::string> threads = mixed;
  threads.push_back("data.loader_threads=3");
  CHECK(digest(job.run("threads", threads)) == unbroken);
}

TEST_CASE("a run can be stopped and resumed at any step") {
  const TinyJob job;
  const std::string unbroken = digest(job.run("unbroken"));
  for (int64_t step = 1; step < 9; ++step) {
    const std::string name = "broken-" + std::to_string(step);
    job.run(name, {}, {.max_steps = step});
    CHECK(digest(job.run("", {}, {.resume = job.folder / name})) == unbroken);
  }
}

namespace {

void same_when_resumed_with_late_sums(const std::vector<std::string>& overrides) {
  const TinyJob job;
  CAPTURE(overrides[0]);
  const Json unbroken = job.run("unbroken", overrides);
  for (const int64_t step : {1, 4, 8}) {
    const std::string name = "broken-" + std::to_string(step);
    job.run(name, overrides, {.max_steps = step});
    const Json resumed = job.run("", overrides, {.resume = job.folder / name});
    CHECK(digest(resumed) == digest(unbroken));
    CHECK(resumed["test_loss"] == unbroken["test_loss"]);
  }
}

}  // namespace

TEST_CASE("with sums late by 1 a run can be stopped and resumed") {
  same_when_resumed_with_late_sums({"comm.staleness=1", "optimizer.type=adam"});
}

TEST_CASE("with sums late by 2 a run with sfb can be stopped and resumed") {
  same_when_resumed_with_late_sums(
      {"comm.staleness=2", "comm.scheme=sfb", "cluster.logical_shards=2"});
}

TEST_CASE("with sums late by 3 a run with gradient clipping can be stopped and resumed") {
  same_when_resumed_with_late_sums(
      {"comm.staleness=3", "optimizer.clip_norm=0.1", "cluster.logical_shards=4"});
}

TEST_CASE("checkpoints and tests during a run with late sums do not change the bits") {
  const TinyJob job;
  const Json plain = job.run("plain", {"comm.staleness=2"});
  const Json often =
      job.run("often", {"comm.staleness=2", "train.test_every=2", "train.checkpoint_every=1"});
  CHECK(digest(often) == digest(plain));
  CHECK(digest(job.run("on-time")) != digest(plain));
  SilentLog log;
  for (int64_t step = 1; step <= 9; ++step) {
    const auto file =
        job.folder / "often/checkpoints" / ("step-" + std::to_string(step) + ".state");
    CHECK(Checkpoint(file).state().in_flight == (step == 9 ? 0 : std::min<int64_t>(step, 2)));
    if (step < 9)
      CHECK(digest(job.run("from-" + std::to_string(step), {"comm.staleness=2"},
                           {.resume = file})) == digest(plain));
  }
}

TEST_CASE("a run may resume with another staleness than its checkpoint has") {
  const TinyJob job;
  job.run("late", {"comm.staleness=3"}, {.max_steps = 5});
  for (const char* staleness : {"comm.staleness=0", "comm.staleness=1", "comm.staleness=4"}) {
    fs::remove_all(job.folder / "other");
    const Json resumed = job.run("other", {staleness}, {.resume = job.folder / "late"});
    CHECK(resumed["steps"] == 9);
    CHECK(Checkpoint(job.folder / "other/checkpoints/step-9.state").state().in_flight == 0);
  }
}

TEST_CASE("a resumed run continues metrics.jsonl, without lines of steps after the checkpoint") {
  const TinyJob job;
  job.run("unbroken", {"train.log_every=1"});
  job.run("broken", {"train.log_every=1", "train.checkpoint_every=4"}, {.max_steps = 6});
  // Simulates a machine that failed before the checkpoint of step 6.
  fs::remove(job.folder / "broken/checkpoints/step-6.state");
  job.run("", {"train.log_every=1"}, {.resume = job.folder / "broken"});
  CHECK(metrics_of(job.folder / "broken") == metrics_of(job.folder / "unbroken"));
}

TEST_CASE("a damaged checkpoint is skipped, and the one before it is used") {
  const TinyJob job;
  const std::string unbroken = digest(job.run("run", {"train.checkpoint_every=3"}));
  for (const char* file : {"step-9.state", "step-6.safetensors"}) {
    std::string bytes = read_text(job.folder / "run/checkpoints" / file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(job.folder / "run/checkpoints" / file, bytes);
  }
  CHECK(digest(job.run("other", {"train.checkpoint_every=3"}, {.resume = job.folder / "run"})) ==
        unbroken);
  CHECK(fs::exists(job.folder / "other/checkpoints/step-6.state"));
}

TEST_CASE("the gradients of the logical shards add up to nearly that of the whole batch") {
  // The network has no batch norm or dropout, because these depend on the shard.
  const TinyJob job(R"({"name": "plain", "input": {"channels": 2, "height": 6, "width": 6},
    "layers": [{"name": "conv", "type": "convolution", "outputs": 5, "kernel": 3,
                "weight_filler": {"type": "xavier"}},
               {"name": "ip", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
               {"name": "loss", "type": "softmax_loss"}]})");
  const auto weights = [&](const std::string& run, std::vector<std::string> overrides) {
    job.run(run, std::move(overrides));
    const SafetensorsFile file(job.folder / run / "checkpoints/step-9.safetensors");
    return file.read(*file.find("ip.weight"));
  };
  const std::vector<float> whole = weights("whole", {});
  for (const char* shards : {"2", "4", "8"}) {
    const std::vector<float> sharded = weights(std::string("sharded-") + shards,
                                               {std::string("cluster.logical_shards=") + shards});
    for (size_t i = 0; i < whole.size(); ++i)
      CHECK(sharded[i] == doctest::Approx(static_cast<double>(whole[i])).epsilon(1e-4));
  }
}

TEST_CASE("gradient clipping limits the norm of one update") {
  const TinyJob job;
  const std::vector<std::string> overrides{"optimizer.clip_norm=0.001", "optimizer.momentum=0",
                                           "optimizer.weight_decay=0",  "optimizer.learning_rate=1",
                                           "optimizer.schedule=null",   "train.checkpoint_every=1"};
  job.run("run", overrides, {.max_steps = 2});
  const SafetensorsFile before(job.folder / "run/checkpoints/step-1.safetensors");
  const SafetensorsFile after(job.folder / "run/checkpoints/step-2.safetensors");
  double squares = 0;
  for (const auto& entry : before.entries()) {
    if (entry.name.find("running") != std::string::npos) continue;
    const std::vector<float> a = before.read(entry), b = after.read(*after.find(entry.name));
    for (size_t i = 0; i < a.size(); ++i)
      squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  }
  CHECK(std::sqrt(squares) == doctest::Approx(0.001).epsilon(1e-3));
}

TEST_CASE("a loss that is not finite ends the run, names the layer and keeps the last checkpoint") {
  const TinyJob job;
  const std::string error = error_of<RunError>([&] {
    job.run("run",
            {"optimizer.learning_rate=1e30", "optimizer.schedule=null", "train.checkpoint_every=1"},
            {.trace = true});
  });
  CAPTURE(error);
  CHECK(error.find("the loss is ") != std::string::npos);
  CHECK(error.find("the first layer with a value that is not finite is \"") != std::string::npos);
  CHECK(error.find("the last checkpoint is ") != std::string::npos);
  CHECK(fs::exists(job.folder / "run/checkpoints/step-1.state"));
  CHECK(read_text(job.folder / "run/trace.json").find("backward conv") != std::string::npos);
  const Json summary = Json::parse(read_text(job.folder / "run/summary.json"));
  CHECK(error.starts_with(summary["failure"].get<std::string>()));
  CHECK(summary["finished"] == false);
}

TEST_CASE("the layer with a value that is not finite is named if its output overwrites the input") {
  const TinyJob job(R"({
  "name": "tiny", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "drop", "type": "dropout"},
    {"name": "ip1", "type": "linear", "outputs": 72, "weight_filler": {"type": "xavier"}},
    {"name": "relu", "type": "relu"},
    {"name": "ip2", "type": "linear", "outputs": 200,
     "weight_filler": {"type": "gaussian", "deviation": 1e38}},
    {"name": "loss", "type": "softmax_loss"}]})");
  const std::string error = error_of<RunError>([&] { job.run("run"); });
  CHECK(error.starts_with("step 1: the loss is "));
  CHECK(error.find("the first layer with a value that is not finite is \"ip2\"") !=
        std::string::npos);
}

TEST_CASE("a run with several tests names each corrupt test sample once") {
  const TinyJob job;
  for (const char* image : {"0/1.pgm", "0/2.pgm", "1/1.pgm", "2/1.pgm"}) {
    const fs::path file = job.folder / "test" / image;
    fs::create_directories(file.parent_path());
    write_text(file, "P5\n6 6\n255\n" + std::string(36, '.'));
  }
  Json json = read_json(job.folder / "job.json");
  json["data"]["test"] = {
      {"type", "images"}, {"path", (job.folder / "test").string()}, {"on_error", "skip"}};
  json["data"]["train"]["channels"] = 1;
  write_text(job.folder / "job.json", json.dump());
  Json network = read_json(job.folder / "tiny_network.json");
  network["input"]["channels"] = 1;
  write_text(job.folder / "tiny_network.json", network.dump());
  write_text(job.folder / "test/0/2.pgm", "P5\n6 6\n255\n");
  job.run("run", {"train.test_every=3"});
  const std::string log = read_text(job.folder / "run/console.log");
  const auto times = [&](const std::string& part) {
    int count = 0;
    for (size_t at = log.find(part); at != std::string::npos; at = log.find(part, at + 1)) ++count;
    return count;
  };
  CHECK(times(" test loss ") == 3);
  CHECK(times("; skipped") == 1);
}

TEST_CASE("--weights loads tensors by name into another network") {
  const TinyJob job;
  const std::string trained = digest(job.run("run"));
  CHECK(digest(job.run("fine", {},
                       {.weights = job.folder / "run/checkpoints/step-9.safetensors",
                        .max_steps = 0})) == trained);
  CHECK(error_of<ConfigError>([&] {
          job.run("none", {}, {.weights = job.folder / "nothing.safetensors"});
        }) == "--weights " + (job.folder / "nothing.safetensors").string() + ": no such file");
}

TEST_CASE("--test gives the result of the run's final test") {
  const TinyJob job;
  const Json summary = job.run("run");
  Console console(Console::Mode::kSilent);
  const Json result = test(job.load(), {.resume = job.folder / "run"}, console);
  CHECK(result["top1"] == summary["test_top1"]);
  CHECK(result["loss"].get<double>() ==
        doctest::Approx(summary["test_loss"].get<double>()).epsilon(1e-6));
  CHECK(result["samples"] == 21);
  CHECK(result["step"] == 9);
  CHECK(error_of<ConfigError>([&] { test(job.load(), {}, console); }) ==
        "weights are missing: add --resume RUN_DIR|FILE or --weights FILE");
}

TEST_CASE("an output folder that is not empty is refused") {
  const TinyJob job;
  job.run("run", {}, {.max_steps = 1});
  const std::string path = (job.folder / "run").string();
  CHECK(error_of<ConfigError>([&] { job.run("run"); }) ==
        "--output " + path +
            ": is not empty; name another folder, or resume the run in it with --resume " + path);
  CHECK_NOTHROW(job.run("run", {}, {.resume = job.folder / "run"}));
}

TEST_CASE("a checkpoint of another network, optimizer or batch is refused") {
  const TinyJob job;
  job.run("run", {}, {.max_steps = 2});
  const std::string state = (job.folder / "run/checkpoints/step-2.state").string();
  const auto refusal = [&](std::vector<std::string> overrides) {
    return error_of<ConfigError>(
        [&] { job.run("", std::move(overrides), {.resume = job.folder / "run"}); });
  };
  CHECK(refusal({"optimizer.type=adam"}) ==
        state +
            ": has no optimizer state \"conv.weight.first_moment\", which this job needs: the "
            "checkpoint is of another job (--weights loads the tensors that match)");
  CHECK(refusal({"data.batch_per_worker=10"}) ==
        (job.folder / "run").string() +
            ": 16 samples were used in 2 steps, but this job has batches of 10: expected the batch "
            "size of the checkpoint");
}

TEST_CASE("epochs are counted in samples") {
  const TinyJob job;
  CHECK(job.run("run", {"train.epochs=2"})["steps"] == 13);  // 100 samples in batches of 8
}

TEST_CASE("--time lists every layer") {
  const TinyJob job;
  Console console(Console::Mode::kSilent);
  const Json timing = time_layers(job.load(), {}, 3, console);
  CHECK(timing["layers"].size() >= 4);
  CHECK(timing["layers"][0]["name"] == "conv");
  CHECK(timing["layers"][0]["forward_gflops"].get<double>() > 0);
  CHECK(timing["update_ms"].get<double>() > 0);
}
