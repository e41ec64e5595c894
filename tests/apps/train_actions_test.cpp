// Actions of poseidon-train without training: --check, --plan, --test, --classify, --schema.

#include <doctest/doctest.h>

#include <sstream>

#include <algorithm>
#include <set>

#include "core/isa.h"
#include "core/json.h"
#include "tests/apps/train_program.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::TinyJob;
namespace fs = std::filesystem;

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
  CHECK(has(refused.err,
            "--set data.train.path=${NOWHERE}/mnist: \"${NOWHERE}/mnist\": the variable NOWHERE is "
            "not set"));
}

TEST_CASE("--check prints the parts of a run's memory, and they add up to the total") {
  const TinyJob job;
  const auto memory_of = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--check", "--json", "--threads", "1"});
    const Finished checked = run(job, words);
    CHECK(checked.code == 0);
    return Json::parse(checked.out)["memory"];
  };
  const Json memory = memory_of({});
  int64_t sum = 0;
  for (const auto& [name, bytes] : memory.items())
    if (name != "total_bytes") sum += bytes.get<int64_t>();
  CHECK(memory["total_bytes"] == sum);
  // Three batches of 8 samples are buffered for training, and three for tests. Each sample has a
  // label and an index.
  CHECK(memory["batches"] == 2 * 3 * 8 * (2 * 6 * 6 * 4 + 4 + 8));
  CHECK(memory["copies"] == 3 * 80 * 4);  // for the largest tensor
  CHECK(memory["second_version"] == 0);
  CHECK(memory["sums"] == 0);
  CHECK(memory["data"] == 0);
  CHECK(memory["process"].get<int64_t>() > 1 << 20);

  const Json of_two = memory_of({"--workers", "2"});
  CHECK(of_two["second_version"] > 0);
  CHECK(of_two["sums"] > 0);
  // All parameters and their momentum, as in a checkpoint.
  CHECK(of_two["copies"] == 2 * 4 * (5 * 2 * 9 + 2 * 5 + 3 * 80 + 3));
  const Json adam = memory_of({"--set", "optimizer={\"type\": \"adam\", \"learning_rate\": 0.1}"});
  CHECK(adam["optimizer_state"].get<double>() ==
        doctest::Approx(2 * memory["optimizer_state"].get<double>()).epsilon(0.2));
  CHECK(memory_of({"--set", "cluster.logical_shards=4"})["sums"] > 0);

  const Finished table = run(job, {"--check"});
  CHECK(has(table.out, "estimated peak memory"));
  CHECK(has(table.out, "optimizer state"));
  CHECK(has(table.out, "total per worker"));
  CHECK_FALSE(has(table.out, "second version"));
}

TEST_CASE("--check refuses a transform that does not fit the first sample") {
  const TinyJob job;
  const Finished checked =
      run(job, {"--check", "--set", "data.train.transform.random_resized_crop.size=6"});
  CHECK(checked.code == 2);
  CHECK(has(checked.err, "job.json: /data/train: random #0: float samples cannot be resized"));
}

TEST_CASE("--plan prints the bytes for a number of workers, and reads --times") {
  const TinyJob job;
  const Finished plan = run(job, {"--plan", "--workers", "5", "--servers", "3", "--json"});
  CHECK(plan.code == 0);
  const Json json = Json::parse(plan.out);
  CHECK(json["workers"] == 5);
  CHECK(json["servers"] == 3);
  CHECK(json["batch_per_worker"] == 8.0);
  CHECK(json["layers"].size() == 3);
  // A job's "comm.plan" may name this output.
  trainer::write_text(job.folder / "plan.json", plan.out);
  const Finished again = run(job, {"--plan", "--workers", "5", "--servers", "3", "--set",
                                   "comm.plan=" + (job.folder / "plan.json").string()});
  CHECK(again.code == 0);
  CHECK(has(again.out, "as in the earlier plan"));
  const Finished table = run(job, {"--plan", "--workers", "5"});
  CHECK(has(table.out, "5 workers, 5 servers, 8 samples per worker"));
  CHECK(has(table.out, "would consider sfb"));
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
  CHECK(has(run(job, by_time).out, "predicted step: "));
  std::vector<std::string> simulated = by_time;
  simulated.push_back("--simulate");
  CHECK(has(run(job, simulated).out, "simulated step: "));
  CHECK(run(job, {"--plan", "--workers", "5", "--simulate"}).err ==
        "poseidon-train: --simulate: expected --times FILE, the output of --time --json\n");
  CHECK(run(job, {"--check", "--simulate"}).err == "poseidon-train: --simulate requires --plan\n");
  const Finished lacking = run(job, {by_time.begin(), by_time.begin() + 5});
  CHECK(lacking.code == 2);
  CHECK(has(lacking.err, "\"comm.policy\": \"time\" requires measured layer times"));
}

namespace {

/// Changes the job: "train/", a folder of images, is its training set and its test set. A second
/// folder of images is "other/".
void train_on_images(const TinyJob& job) {
  for (const char* image : {"train/cat/1.pgm", "train/dog/1.pgm", "train/emu/1.pgm",
                            "other/ape/1.pgm", "other/cat/1.pgm", "other/dog/1.pgm"}) {
    fs::create_directories((job.folder / image).parent_path());
    trainer::write_text(job.folder / image, "P5\n6 6\n255\n" + std::string(36, image[6]));
  }
  std::string network = trainer::kTinyNetwork;
  network.replace(network.find("\"channels\": 2"), 13, "\"channels\": 1");
  trainer::write_text(job.folder / "tiny_network.json", network);
  Json json = read_json(job.folder / "job.json");
  json["data"]["train"] = {{"type", "images"}, {"path", "train"}};
  json["data"]["test"] = json["data"]["train"];
  trainer::write_text(job.folder / "job.json", json.dump());
}

}  // namespace

TEST_CASE("--test prints the accuracy of each class and the confused classes") {
  const TinyJob job;
  const std::string output = (job.folder / "run").string();
  CHECK(run(job, {"--output", output}).code == 0);
  const Finished tested = run(job, {"--test", "--resume", output, "--json"});
  CHECK(tested.code == 0);
  const Json json = Json::parse(tested.out);
  int64_t samples = 0, correct = 0, wrong = 0;
  for (const Json& each : json["classes"]) {
    samples += each["samples"].get<int64_t>();
    correct += each["correct"].get<int64_t>();
  }
  for (const Json& each : json["confusions"]) {
    CHECK(each["class"] != each["taken_for"]);
    wrong += each["samples"].get<int64_t>();
  }
  CHECK(samples == 21);
  CHECK(correct + wrong == samples);
  CHECK(json["top1"].get<double>() == doctest::Approx(static_cast<double>(correct) / 21));
  const std::string table = run(job, {"--test", "--resume", output}).out;
  CHECK(has(table, "worst classes"));
  CHECK(has(table, "predicted class"));
}

TEST_CASE("--extract writes features of the named layers, from a run or from weights") {
  const TinyJob job;
  const std::string output = (job.folder / "run").string();
  CHECK(run(job, {"--output", output}).code == 0);
  const fs::path folder = job.folder / "features";
  const auto extract = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--output", folder.string(), "--force"});
    return run(job, std::move(words));
  };
  const Finished extracted = extract({"--extract", "conv,ip", "--resume", output, "--json"});
  CHECK(extracted.code == 0);
  const Json json = Json::parse(extracted.out);
  CHECK(json["file"] == (folder / "features.safetensors").string());
  CHECK(json["layers"][1] == Json{{"name", "ip"}, {"shape", {21, 3, 1, 1}}});
  const std::string bytes = trainer::read_text(folder / "features.safetensors");
  const Finished told =
      extract({"--extract", "conv,ip", "--weights", output + "/checkpoints/step-9.safetensors"});
  CHECK(told.code == 0);
  CHECK(has(told.out, "features.safetensors: 21 samples, weights "));
  CHECK(has(told.out, "conv  [21,5,4,4]"));
  CHECK(trainer::read_text(folder / "features.safetensors") == bytes);
  const Finished again =
      run(job, {"--extract", "conv", "--resume", output, "--output", folder.string()});
  CHECK(again.code == 2);
  CHECK(again.err ==
        "poseidon-train: " + (folder / "features.safetensors").string() +
            ": exists already; expected a new file, or --force, which overwrites it\n");
  CHECK(trainer::read_text(folder / "features.safetensors") == bytes);
  const Finished wrong = extract({"--extract", "conv1", "--resume", output});
  CHECK(wrong.code == 2);
  CHECK(has(wrong.err, "such as \"conv\""));
  CHECK(extract({"--extract", "conv", "--test", "--resume", output}).code == 2);
  CHECK(has(extract({"--extract", "conv"}).err, "weights are missing: "));
}

TEST_CASE(
    "a run stores its classes: another test set is refused, and --classify prints their names") {
  const TinyJob job;
  train_on_images(job);
  const std::string output = (job.folder / "run").string();
  const std::string image = (job.folder / "train/dog/1.pgm").string();
  CHECK(run(job, {"--output", output}).code == 0);
  fs::rename(job.folder / "train", job.folder / "away");
  const auto at = [&](const char* key, const char* folder) {
    return key + std::string("=") + (job.folder / folder).string();
  };
  const Finished refused =
      run(job, {"--test", "--resume", output, "--set", at("data.train.path", "away"), "--set",
                at("data.test.path", "other")});
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "label 0 is \"cat\" in the training set and \"ape\" here"));

  const std::string away = (job.folder / "away/dog/1.pgm").string();
  const Finished classified =
      Program("poseidon-train", {"--resume", output, "--classify", away, image, away, "--json"},
              job.folder)
          .wait();
  CHECK(classified.code == 1);
  CHECK(has(classified.err, "1 of 3 images could not be classified"));
  const Json images = Json::parse(classified.out)["images"];
  REQUIRE(images.size() == 3);
  CHECK(has(images[1]["error"].get<std::string>(), image + ": cannot be opened"));
  CHECK(images[0]["scores"] == images[2]["scores"]);
  double sum = 0;
  std::set<std::string> names;
  for (const Json& score : images[0]["scores"]) {
    sum += score["probability"].get<double>();
    names.insert(score["class"].get<std::string>());
  }
  CHECK(sum == doctest::Approx(1));
  CHECK(names == std::set<std::string>{"cat", "dog", "emu"});
  const Finished table =
      Program("poseidon-train", {"--resume", output, "--classify", away}, job.folder).wait();
  CHECK(table.code == 0);
  CHECK(table.out.starts_with(away + ":  "));
}

TEST_CASE("a run of several workers stores its classes too") {
  const TinyJob job;
  train_on_images(job);
  const std::string output = (job.folder / "run").string();
  CHECK(run(job, {"--output", output, "--workers", "2", "--threads", "1"}).code == 0);
  fs::rename(job.folder / "train", job.folder / "away");
  const std::string dog = (job.folder / "away/dog/1.pgm").string();
  const Finished classified =
      Program("poseidon-train", {"--resume", output, "--classify", dog, "--json"}, job.folder)
          .wait();
  CHECK(classified.code == 0);
  const Json scores = Json::parse(classified.out)["images"][0]["scores"];
  std::set<std::string> names;
  for (const Json& score : scores) names.insert(score["class"].get<std::string>());
  CHECK(names == std::set<std::string>{"cat", "dog", "emu"});
}

TEST_CASE("--isa accepts each level that the processor has, and refuses unknown ones") {
  const TinyJob job;
  for (const Isa each : built_isas()) {
    const std::string name(name_of(each));
    CAPTURE(name);
    if (each > isa()) continue;
    const Finished told =
        Program("poseidon-train", {"--isa", name, "--version"}, job.folder).wait();
    CHECK(has(told.out, "own kernels for " + name));
    const fs::path folder = job.folder / name;
    const Finished trained =
        run(job, {"--isa", name, "--set", "train.steps=2", "--output", folder.string()});
    CHECK(trained.code == 0);
    const Json plan = Json::parse(trainer::read_text(folder / "plan.json"));
    CHECK(has(plan["devices"][0]["arithmetic"].get<std::string>(), "own kernels for " + name));
  }
  const Finished refused =
      Program("poseidon-train", {"--isa", "sse2", "--version"}, job.folder).wait();
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "expected one that this build contains ("));
  CHECK(has(refused.err, "), got \"sse2\""));
}

TEST_CASE("--devices lists the devices, or prints one line that states why there is no GPU") {
  const TinyJob job;
  const Finished listed = Program("poseidon-train", {"--devices", "--json"}, job.folder).wait();
  CHECK(listed.code == 0);
  const Json devices = Json::parse(listed.out);
  CHECK(devices["cpu"]["cores"].get<int>() > 0);
  if (!devices["gpus"].empty()) return;
  const auto why = devices["why_no_gpus"].get<std::string>();
  CHECK((has(why, "this machine") || has(why, "this build has no GPU library")));
  const Finished words = Program("poseidon-train", {"--devices"}, job.folder).wait();
  CHECK(std::ranges::count(words.out, '\n') == 2);
}

TEST_CASE("--schema prints JSON schemas, and --version and --help work") {
  const TinyJob job;
  const auto answer = [&](std::vector<std::string> words) {
    const Finished finished = Program("poseidon-train", words, job.folder).wait();
    CHECK(finished.code == 0);
    return finished.out;
  };
  CHECK(Json::parse(answer({"--schema", "job"}))["title"] == "Poseidon job");
  CHECK(has(answer({"--version"}), "poseidon-train "));
  CHECK(has(answer({"--version"}), "own kernels for " + std::string(name_of(isa()))));
  CHECK(Json::parse(answer({"--schema", "network"}))["properties"].contains("$schema"));
  const std::string help = answer({"--help"});
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 80);
  }
  for (const char* program : {"poseidon-import", "poseidon-export", "poseidon-worker"}) {
    CAPTURE(program);
    CHECK(Program(program, {"--help"}, job.folder).wait().out.size() > 100);
  }
  CHECK(has(Program("poseidon-export", {"onnx", "--help"}, job.folder).wait().out, "--force"));
  for (const char* part : {"--resume", "Several workers:", "Examples:", "docs/config.md"})
    CHECK(has(help, part));
  CHECK(
      Program("poseidon-data", {"--version"}, job.folder).wait().out.starts_with("poseidon-data "));
}
