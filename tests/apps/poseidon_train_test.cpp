// The program itself: exit codes, what goes where, signals.

#include <doctest/doctest.h>

#include <set>

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

TEST_CASE("--check tells of what memory a run is made, and of all of it") {
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
  // Three batches of 8 samples made ready, with label and index of each, for training and test.
  CHECK(memory["batches"] == 2 * 3 * 8 * (2 * 6 * 6 * 4 + 4 + 8));
  CHECK(memory["copies"] == 3 * 80 * 4);  // of the largest tensor
  CHECK(memory["second_version"] == 0);
  CHECK(memory["sums"] == 0);
  CHECK(memory["data"] == 0);
  CHECK(memory["process"].get<int64_t>() > 1 << 20);

  const Json of_two = memory_of({"--workers", "2"});
  CHECK(of_two["second_version"] > 0);
  CHECK(of_two["sums"] > 0);
  // All that a checkpoint has of parameters and their momentum.
  CHECK(of_two["copies"] == 2 * 4 * (5 * 2 * 9 + 2 * 5 + 3 * 80 + 3));
  const Json adam = memory_of({"--set", "optimizer={\"type\": \"adam\", \"learning_rate\": 0.1}"});
  CHECK(adam["optimizer_state"].get<double>() ==
        doctest::Approx(2 * memory["optimizer_state"].get<double>()).epsilon(0.2));
  CHECK(memory_of({"--set", "cluster.logical_shards=4"})["sums"] > 0);

  const Finished table = run(job, {"--check"});
  CHECK(has(table.out, "memory at a run's peak"));
  CHECK(has(table.out, "optimizer state"));
  CHECK(has(table.out, "total of a worker"));
  CHECK_FALSE(has(table.out, "second version"));
}

// The sanitizers' allocators want more addresses than a limit leaves.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("memory that cannot be had is told with layer and batch, after a warning") {
  const TinyJob job;
  const std::string program = (fs::path(POSEIDON_BINARY_DIR) / "poseidon-train").string();
  const auto limited = [&](const std::string& more) {
    return Program("/bin/sh",
                   {"-c", "ulimit -v 2000000; exec '" + program + "' '" +
                              (job.folder / "job.json").string() + "' --threads 1 --output '" +
                              (job.folder / "run").string() + "' " + more},
                   job.folder)
        .wait();
  };
  const Finished batch = limited("--set data.batch_per_worker=4000000");
  CHECK(batch.code == 1);
  CHECK(has(batch.err, "warning: at its peak 1 worker of this run will take about "));
  CHECK(has(batch.err, (job.folder / "tiny_network.json").string() + ": layer \""));
  CHECK(has(batch.err, " with a batch of 4000000, the largest part of "));
  CHECK(has(batch.err, " are available: reduce data.batch_per_worker\n"));
  CHECK_FALSE(fs::exists(job.folder / "run"));

  // Its weights alone: no batch is small enough.
  std::string network = trainer::kTinyNetwork;
  network.replace(network.find("\"outputs\": 3"), 12, "\"outputs\": 8000000");
  trainer::write_text(job.folder / "tiny_network.json", network);
  const Finished weights = limited("--set data.batch_per_worker=1");
  CHECK(weights.code == 1);
  CHECK(has(weights.err,
            ": 2.6 GB for \"ip.weight\", the largest part of 2.6 GB for parameters, "
            "cannot be had; "));
  CHECK_FALSE(has(weights.err, ": reduce "));
}
#endif

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
  std::vector<std::string> simulated = by_time;
  simulated.push_back("--simulate");
  CHECK(has(run(job, simulated).out, "a simulated one takes "));
  CHECK(run(job, {"--plan", "--workers", "5", "--simulate"}).err ==
        "poseidon-train: --simulate: expected --times FILE, the output of --time --json\n");
  CHECK(run(job, {"--check", "--simulate"}).err ==
        "poseidon-train: --simulate: expected --plan beside it\n");
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
  CHECK(has(refused({"--times", "t.json"}), "--times t.json: expected --plan or --device replay"));
  CHECK(has(refused({"--external"}), "--external: expected --listen ADDR:PORT beside it"));
  CHECK(has(refused({"--listen", "127.0.0.1:0"}), "expected --external beside it"));
  CHECK(has(refused({"--secret-file", "s"}), "--secret-file s: expected --external beside it"));
  CHECK(has(refused({"--insecure"}), "--insecure: expected --external beside it"));
  CHECK(has(refused({"--external", "--listen", "nonsense"}), "\"nonsense\" is no address"));
  for (const char* number : {"-1", "99999999999999999999", "3.5", "x", ""})
    CHECK(has(refused({"--max-steps", number}),
              std::string("--max-steps: expected a whole number >= 0, got ") + number + " (see"));
  CHECK(has(refused({"--workers", "99999999999999999999"}), "expected a whole number >= 1"));
  CHECK(has(refused({"--device", "cpu:2"}), "knows no numbered devices"));
  CHECK(has(refused({"--device", "cuda"}), "this build computes on \"cpu\" only"));
  CHECK(has(refused({"--check", "--time"}), "expected at most one of"));
  CHECK(has(refused({"--resume", "/no/run"}), "--resume /no/run: no such run directory or file"));
  const Finished none = Program("poseidon-train", {"/no/job.json"}, job.folder).wait();
  CHECK(none.code == 2);
  CHECK(has(none.err, "/no/job.json: cannot be read"));
  CHECK(Program("poseidon-train", {}, job.folder).wait().code == 2);
}

TEST_CASE("--resume names what is missing, and takes a checkpoint of a run") {
  const TinyJob job;
  const auto resumed = [&](const fs::path& what) {
    return Program("poseidon-train", {"--resume", what.string(), "--json"}, job.folder).wait();
  };
  const Finished typo = resumed(job.folder / "no-run");
  CHECK(typo.code == 2);
  CHECK(typo.err == "poseidon-train: --resume " + (job.folder / "no-run").string() +
                        ": no such run directory or file\n");
  const Finished empty = resumed(job.folder);
  CHECK(empty.code == 2);
  CHECK(has(empty.err, "expected a run directory, but there is no config.json in it"));

  const std::string output = (job.folder / "run").string();
  CHECK(run(job, {"--output", output, "--max-steps", "4"}).code == 0);
  fs::copy(output + "/checkpoints/step-4.state", job.folder / "step-4.state");
  const Finished lone = resumed(job.folder / "step-4.state");
  CHECK(lone.code == 2);
  CHECK(has(lone.err, "lies in no run directory"));
  fs::copy(output, output + "2", fs::copy_options::recursive);
  for (const char* file : {"run/checkpoints/step-4.safetensors", "run2/checkpoints/step-4.state"}) {
    const Finished finished = resumed(job.folder / file);
    CHECK(finished.code == 0);
    CHECK(Json::parse(finished.out)["steps"] == 9);
  }
}

TEST_CASE("a checkpoint of another network is refused as that") {
  const TinyJob job;
  const std::string output = (job.folder / "run").string();
  CHECK(run(job, {"--output", output, "--max-steps", "2"}).code == 0);
  std::string network = trainer::kTinyNetwork;
  network.replace(network.find("\"outputs\": 5"), 12, "\"outputs\": 7");
  trainer::write_text(job.folder / "tiny_network.json", network);
  const Finished refused = run(job, {"--resume", output, "--output", output + "2"});
  CHECK(refused.code == 2);
  CHECK(has(refused.err,
            "a checkpoint of another network, \"tiny\" (6 layers): its "
            "\"conv.weight\" has another shape, expected 7x2x3x3"));
}

TEST_CASE("exit code 2: what the user named cannot be used, if only that it is damaged") {
  const TinyJob job;
  const auto code = [&](std::vector<std::string> words) { return run(job, std::move(words)).code; };
  const auto file = [&](const char* name, const std::string& content) {
    trainer::write_text(job.folder / name, content);
    return (job.folder / name).string();
  };
  const std::string junk = file("junk.safetensors", "junk");
  CHECK(code({"--weights", "/no/such.safetensors"}) == 2);
  CHECK(code({"--weights", junk}) == 2);
  CHECK(code({"--test", "--weights", junk}) == 2);
  CHECK(code({"--set", "device.choices=" + file("c.json", "{\"conv\": {\"layout\": \"wide\"}}")}) ==
        2);
  CHECK(code({"--set", "comm.plan=" + file("p.json", "{}")}) == 2);
  const std::string mnist = job.folder / "mnist";
  fs::create_directories(mnist);
  const std::vector<std::string> data{"--set", "data.train.type=mnist", "--set",
                                      "data.train.path=" + mnist};
  CHECK(code(data) == 2);
  file("mnist/train-images-idx3-ubyte", "torn");
  file("mnist/train-labels-idx1-ubyte", "torn");
  CHECK(code(data) == 2);
  std::vector<std::string> workers = data;
  workers.insert(workers.end(), {"--workers", "2"});
  CHECK(code(workers) == 2);
  CHECK(code({"--set", "data.train.transform.mean_image=" + file("m.pfm", "torn")}) == 2);
  file("job.json", "{\"name\": 1e999");
  CHECK(code({}) == 2);
}

TEST_CASE("exit code 2: paths that cannot be looked at, and words that are no UTF-8") {
  const TinyJob job;
  fs::create_symlink("loop", job.folder / "loop");
  const std::string loop = (job.folder / "loop").string(), overlong(5000, 'x');
  const auto refused = [&](const std::vector<std::string>& words) {
    const Finished finished = run(job, words);
    CHECK(finished.code == 2);
    CHECK_FALSE(has(finished.err, "internal error"));
    return finished.err;
  };
  for (const std::string& path : {loop, overlong, loop + "/inside"}) {
    refused({"--resume", path});
    refused({"--weights", path});
    refused({"--output", path});
    refused({"--set", "network=" + path});
    refused({"--set", "data.train.type=images", "--set", "data.train.path=" + path});
    CHECK(Program("poseidon-train", {path}, job.folder).wait().code == 2);
  }
  CHECK(has(refused({"--output", "r\xffn"}),
            "word 3 of the command line, \"r\\xffn\": expected UTF-8, got other bytes"));
}

TEST_CASE("output that cannot be written is an error") {
  const TinyJob job;
  const Finished full = Program("poseidon-train", {(job.folder / "job.json").string(), "--check"},
                                job.folder, "/dev/full")
                            .wait();
  CHECK(full.code == 1);
  CHECK(full.err ==
        "poseidon-train: standard output: cannot be written: No space left on device\n");
  const Finished data = Program("poseidon-data", {"--help"}, job.folder, "/dev/full").wait();
  CHECK(data.code == 1);
}

TEST_CASE("no control character of a name reaches the terminal") {
  const TinyJob job;
  std::string network = trainer::kTinyNetwork;
  network.replace(network.find("\"conv\""), 6, "\"c\\u001b[2Jnv\"");
  trainer::write_text(job.folder / "tiny_network.json", network);
  const Finished checked = run(job, {"--check"});
  CHECK(checked.code == 0);
  CHECK(has(checked.out, "c\\x1b[2Jnv"));
  CHECK_FALSE(has(checked.out + run(job, {"--set", "data.test.x\x1b=1"}).err, "\x1b"));
}

TEST_CASE("daemons refuse words that would let them try for ever") {
  const TinyJob job;
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--coordinator", "localhost:1"});
    const Finished finished = Program("poseidon-worker", words, job.folder).wait();
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(has(refused({"--rank", "-5"}), "--rank: expected a whole number from 0 to 4095, got -5"));
  CHECK(has(refused({"--join-timeout", "-1"}), "--join-timeout: expected a whole number"));
  CHECK(has(refused({"--listen", "here"}), "--listen: \"here\" is no address"));
  const Finished nowhere =
      Program("poseidon-server", {"--coordinator", "nonsense"}, job.folder).wait();
  CHECK(nowhere.code == 2);
  CHECK(has(nowhere.err, "--coordinator: \"nonsense\" is no address, expected HOST:PORT"));
}

TEST_CASE("--test tells the accuracy of each class and which are confused") {
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
  CHECK(has(table, "taken for"));
}

namespace {

/// Makes a job's training set a folder of images, "train/", which is its test set, too. Beside it
/// is another one, "other/".
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

TEST_CASE("a run remembers its classes: another test set is refused, images are named by them") {
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
  CHECK(has(refused.err, "label 0 is \"cat\" there and \"ape\" here"));

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

TEST_CASE("a run of several workers remembers its classes, too") {
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
  const std::string help = answer({"--help"});
  for (const char* part : {"--resume", "Several workers:", "Examples:", "docs/config.md"})
    CHECK(has(help, part));
  CHECK(
      Program("poseidon-data", {"--version"}, job.folder).wait().out.starts_with("poseidon-data "));
}

TEST_CASE("a run that goes on tells of its own steps, and at which step it was tested") {
  const trainer::TinyJob job;
  const std::string run = (job.folder / "run").string();
  const auto words = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "train.test_every=5"});
    return Program("poseidon-train", more, job.folder).wait();
  };
  CHECK(words({(job.folder / "job.json").string(), "--output", run, "--max-steps", "4"})
            .out.starts_with("tiny: 4 steps in "));
  const Finished rest = words({"--resume", run});
  CHECK(rest.out.starts_with("tiny: 5 steps (5 to 9) in "));
  CHECK(rest.out.find(" after step") == std::string::npos);
}
