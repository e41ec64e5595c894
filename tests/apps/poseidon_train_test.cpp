// The program poseidon-train: exit codes, stdout and stderr, signals.

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/json.h"
#include "tests/apps/train_program.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

TEST_CASE("a run exits with 0 and prints its summary as one JSON object") {
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

TEST_CASE(
    "--max-steps stops a run, and --resume continues it to the same bits without a job file") {
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

// The sanitizers' allocators need more address space than the limit allows.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("out of memory: the message names layer and batch, and a warning comes first") {
  const TinyJob job;
  const std::string program = (fs::path(test::program_folder()) / "poseidon-train").string();
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
  CHECK(has(batch.err, "warning: 1 worker of this run will need about "));
  CHECK(has(batch.err, (job.folder / "tiny_network.json").string() + ": out of memory: layer \""));
  CHECK(has(batch.err, " with a batch of 4000000, the largest part of "));
  CHECK(has(batch.err, " are available: reduce data.batch_per_worker from 4000000 to at most "));
  CHECK(has(batch.err, "; \"device.precision\": \"bf16\" needs less\n"));
  CHECK_FALSE(fs::exists(job.folder / "run"));

  // The weights alone exceed the limit, so no batch is small enough.
  std::string network = trainer::kTinyNetwork;
  network.replace(network.find("\"outputs\": 3"), 12, "\"outputs\": 8000000");
  trainer::write_text(job.folder / "tiny_network.json", network);
  const Finished weights = limited("--set data.batch_per_worker=1");
  CHECK(weights.code == 1);
  CHECK(has(weights.err,
            ": out of memory: \"ip.weight\" needs 2.6 GB, the largest part of 2.6 GB for "
            "parameters; "));
  CHECK(has(weights.err, " are available, too little for any batch\n"));
}
#endif

TEST_CASE("usage and config errors exit with 2 and print one line") {
  const TinyJob job;
  const auto refused = [&](std::vector<std::string> words) {
    const Finished finished = run(job, std::move(words));
    CHECK(finished.code == 2);
    CHECK(finished.out.empty());
    CHECK(std::count(finished.err.begin(), finished.err.end(), '\n') == 1);
    return finished.err;
  };
  CHECK(has(refused({"--set", "optimizer.momentun=1"}),
            "--set optimizer.momentun=1: the job has no such key; did you mean "
            "optimizer.momentum?"));
  CHECK(has(refused({"--no-such-flag"}), "--no-such-flag"));
  CHECK(has(refused({"--times", "t.json"}), "--times t.json requires --plan or --device replay"));
  CHECK(has(refused({"--external"}), "--external requires --listen ADDR:PORT"));
  CHECK(has(refused({"--listen", "127.0.0.1:0"}), "requires --external or --hosts"));
  CHECK(has(refused({"--secret-file", "s"}), "--secret-file s requires --external"));
  CHECK(has(refused({"--insecure"}), "--insecure requires --external"));
  CHECK(has(refused({"--external", "--listen", "nonsense"}), "got \"nonsense\""));
  for (const char* number : {"-1", "99999999999999999999", "3.5", "x", ""})
    CHECK(has(refused({"--max-steps", number}),
              std::string("--max-steps: expected a whole number >= 0, got ") + number + " (see"));
  CHECK(has(refused({"--workers", "99999999999999999999"}), "expected a whole number >= 1"));
  CHECK(has(refused({"--device", "cpu:2"}), "/device/indices: expected 0 for each device"));
  CHECK(has(refused({"--device", "cuda:x"}), "--device cuda:x: expected an index >= 0"));
  CHECK(has(refused({"--device", "gpu"}), "--device gpu: expected cpu, cuda or cuda:INDEX"));
  CHECK(has(refused({"--device", "cuda:0,cpu"}),
            "--device cuda:0,cpu: expected devices of one kind, got cuda and cpu"));
  CHECK(has(refused({"--check", "--time"}), "expected at most one of"));
  CHECK(has(refused({"--resume", "/no/run"}), "--resume /no/run: no such run directory or file"));
  const Finished none = Program("poseidon-train", {"/no/job.json"}, job.folder).wait();
  CHECK(none.code == 2);
  CHECK(has(none.err, "/no/job.json: cannot be opened"));
  CHECK(Program("poseidon-train", {}, job.folder).wait().code == 2);
}

TEST_CASE("a flag of another program is refused, and the message names its replacement") {
  const TinyJob job;
  const auto refused = [&](std::vector<std::string> words) {
    const Finished finished = run(job, std::move(words));
    CHECK(finished.code == 2);
    const std::string begin = "poseidon-train: ", end = " (see poseidon-train --help)\n";
    REQUIRE(finished.err.starts_with(begin));
    REQUIRE(finished.err.ends_with(end));
    return finished.err.substr(begin.size(), finished.err.size() - begin.size() - end.size());
  };
  CHECK(refused({"--epochs", "3"}) == "unknown flag --epochs; did you mean --set train.epochs=3?");
  CHECK(refused({"--lr=0.1", "--batch-size", "32"}) ==
        "unknown flag --lr; did you mean --set optimizer.learning_rate=0.1?; unknown flag "
        "--batch-size; did you mean --set data.global_batch=32?");
  CHECK(refused({"--momentum"}) ==
        "unknown flag --momentum; did you mean --set optimizer.momentum=VALUE?");
  CHECK(refused({"--worker", "3"}) == "unknown flag --worker; did you mean --workers?");
  CHECK(refused({"-q"}) ==
        "unknown flag -q; did you mean 2>/dev/null (messages go to standard error, results to "
        "standard output)?");
  CHECK(refused({"--zzzzzz"}) == "unknown flag --zzzzzz");
  CHECK(refused({"--workers"}) == "--workers: expected a value (INT), got none");
  CHECK(refused({"one", "two"}) == "expected no further argument, got one two");
  const std::string digits(400, '9');
  CHECK(refused({"--max-steps", digits}) ==
        "--max-steps: expected a whole number >= 0, got " + digits.substr(0, 40) + "...");
}

TEST_CASE("flags with an empty value or without effect are refused") {
  const TinyJob job;
  for (const char* flag : {"--device", "--output", "--resume", "--set"}) {
    const Finished finished = run(job, {flag, ""});
    CHECK(finished.code == 2);
    CHECK(has(finished.err, std::string(flag) + ": expected a value, got an empty string"));
  }
  CHECK(has(run(job, {"--replan"}).err,
            "--replan requires --resume; it replaces the plan of the resumed run"));
}

TEST_CASE("a run first prints data and network sizes, and prints each plausibility warning once") {
  const TinyJob job;
  const std::vector<std::string> doubtful{"--set", "train.test_every=100", "--output",
                                          (job.folder / "run").string()};
  const std::string numbers =
      "50 samples of 3 classes (0 ... 2), 21 for tests; 343 parameters are "
      "trained, none frozen; 6.3 steps per epoch\n";
  const std::string doubt = "warning: " + (job.folder / "job.json").string() +
                            ": /train/test_every: is 100, but the job ends after step 9: the only "
                            "test is that of the end\n";
  const auto times = [](const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++count;
    return count;
  };
  const Finished one = run(job, doubtful);
  CHECK(one.code == 0);
  CHECK(times(one.err, numbers) == 1);
  CHECK(times(one.err, doubt) == 1);
  const Finished check = run(job, {"--check", "--json", "--set", "train.test_every=100"});
  CHECK(check.code == 0);
  CHECK(times(check.err, doubt) == 1);
  CHECK(Json::parse(check.out)["warnings"] == Json{doubt.substr(9, doubt.size() - 10)});
  CHECK(Json::parse(run(job, {"--check", "--json"}).out)["warnings"] == Json::array());
  const Finished two = run(job, {"--workers", "2", "--set", "train.test_every=100", "--output",
                                 (job.folder / "two").string()});
  INFO(two.err);
  CHECK(two.code == 0);
  CHECK(times(two.err, doubt) == 1);
  CHECK(times(two.err, "50 samples of 3 classes") == 1);
}

TEST_CASE("--weights accepts a run directory, and --trace overwrites no earlier trace") {
  const TinyJob job;
  const std::string first = (job.folder / "run").string();
  CHECK(run(job, {"--output", first, "--max-steps", "3", "--trace"}).code == 0);
  const Finished second =
      run(job, {"--weights", first, "--output", (job.folder / "second").string()});
  CHECK(second.code == 0);
  CHECK(has(second.err, first + "/checkpoints/step-3.safetensors: 7 tensors loaded\n"));
  const Finished again = run(job, {"--resume", first, "--trace"});
  CHECK(again.code == 2);
  CHECK(has(again.err, first + "/trace.json: exists already; expected a new file, or --force"));
  CHECK(run(job, {"--resume", first, "--trace", "--force"}).code == 0);
}

TEST_CASE("--resume names the missing run or file, and accepts a checkpoint of a run") {
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
  CHECK(has(lone.err, "is not in a run directory"));
  fs::copy(output, output + "2", fs::copy_options::recursive);
  for (const char* file : {"run/checkpoints/step-4.safetensors", "run2/checkpoints/step-4.state"}) {
    const Finished finished = resumed(job.folder / file);
    CHECK(finished.code == 0);
    CHECK(Json::parse(finished.out)["steps"] == 9);
  }
}

TEST_CASE("a checkpoint of another network is refused, and the message states that") {
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

TEST_CASE("exit code 2: a file that the user named is missing, damaged or of another kind") {
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

TEST_CASE("exit code 2: a FIFO as a file is refused at once") {
  const TinyJob job;
  const std::string fifo = (job.folder / "fifo").string();
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--weights", fifo},
        {"--set", "network=" + fifo},
        {"--set", "device.choices=" + fifo},
        {"--set", "data.train.transform.mean_image=" + fifo}}) {
    const Finished finished = run(job, words);
    CHECK(finished.code == 2);
    CHECK(has(finished.err, fifo + ": expected a file, got a FIFO"));
  }
  const Finished finished = Program("poseidon-train", {fifo}, job.folder).wait();
  CHECK(finished.code == 2);
  CHECK(has(finished.err, fifo + ": expected a file, got a FIFO"));
}

TEST_CASE("exit code 2: paths that cannot be resolved, and arguments that are not UTF-8") {
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
            "argument 3 of the command line, \"r\\xffn\": expected UTF-8, got other bytes"));
}

TEST_CASE("output that cannot be written is an error") {
  const TinyJob job;
  const Finished full = Program("poseidon-train", {(job.folder / "job.json").string(), "--check"},
                                job.folder, "/dev/full")
                            .wait();
  CHECK(full.code == 1);
  CHECK(full.err.ends_with(
      "frozen; 6.3 steps per epoch\n"
      "poseidon-train: standard output: cannot be written: No space left on device\n"));
  const Finished data = Program("poseidon-data", {"--help"}, job.folder, "/dev/full").wait();
  CHECK(data.code == 1);
}

TEST_CASE("control characters of a name are escaped on the terminal") {
  const TinyJob job;
  std::string network = trainer::kTinyNetwork;
  network.replace(network.find("\"conv\""), 6, "\"c\\u001b[2Jnv\"");
  trainer::write_text(job.folder / "tiny_network.json", network);
  const Finished checked = run(job, {"--check"});
  CHECK(checked.code == 0);
  CHECK(has(checked.out, "c\\x1b[2Jnv"));
  CHECK_FALSE(has(checked.out + run(job, {"--set", "data.test.x\x1b=1"}).err, "\x1b"));
}

TEST_CASE("daemons refuse arguments with which they would retry forever") {
  const TinyJob job;
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"--coordinator", "localhost:1"});
    const Finished finished = Program("poseidon-worker", words, job.folder).wait();
    CHECK(finished.code == 2);
    return finished.err;
  };
  CHECK(has(refused({"--rank", "-5"}), "--rank: expected a whole number from 0 to 4095, got -5"));
  CHECK(has(refused({"--join-timeout", "-1"}), "--join-timeout: expected a whole number"));
  CHECK(has(refused({"--listen", "here"}), "--listen: expected HOST:PORT with a port"));
  const Finished nowhere =
      Program("poseidon-server", {"--coordinator", "nonsense"}, job.folder).wait();
  CHECK(nowhere.code == 2);
  CHECK(has(nowhere.err, "--coordinator: expected HOST:PORT with a port"));
}

TEST_CASE("a run that fails exits with 1") {
  const TinyJob job;
  const Finished finished =
      run(job, {"--output", (job.folder / "run").string(), "--set", "optimizer.learning_rate=1e30",
                "--set", "optimizer.schedule=null"});
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "poseidon-train: step "));
  CHECK(has(finished.err, "the loss is "));
}

TEST_CASE("SIGTERM and SIGINT: the run completes its step and writes checkpoint and summary") {
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

TEST_CASE("a resumed run reports the steps of its session") {
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
