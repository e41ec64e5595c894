// Start and end of the programs: closed standard streams, signals, limits, output folders of runs
// that start at the same time, and the printed command that continues a run.

#include <doctest/doctest.h>

#include <set>

#include "core/json.h"
#include "core/shell_word.h"
#include "tests/apps/cluster.h"
#include "tests/apps/train_program.h"
#include "tests/support/folders.h"
#include "tests/support/sanitizers.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

/// Runs a line of shell in the job's folder, with the programs in PATH.
Finished shell(const TinyJob& job, const std::string& line) {
  return Program("/bin/sh",
                 {"-c", "PATH=" + quoted_for_shell(test::program_folder()) + ":$PATH; cd " +
                            quoted_for_shell(job.folder.string()) + "; " + line},
                 job.folder)
      .wait();
}

/// The command after "to resume: " in the last line that contains it.
std::string continuing_command(const std::string& output) {
  const std::string before = "to resume: ";
  const size_t at = output.rfind(before);
  if (at == std::string::npos) return "";
  return output.substr(at + before.size(), output.find('\n', at) - at - before.size());
}

int64_t lines_in(const fs::path& file) {
  const std::string text = read_text(file);
  return std::count(text.begin(), text.end(), '\n');
}

}  // namespace

TEST_CASE("programs that are started with closed standard streams write to no other file") {
  const TinyJob job;
  CHECK(shell(job, "poseidon-train job.json --output whole").code == 0);
  const int64_t lines = lines_in(job.folder / "whole/metrics.jsonl");
  CHECK(lines == 7);
  for (const char* closed : {"2>&-", ">&- 2>&-", "<&- >&- 2>&-", ">&-"}) {
    CAPTURE(closed);
    fs::remove_all(job.folder / "run");
    CHECK(shell(job, std::string("poseidon-train job.json --output run ") + closed).code == 0);
    CHECK(lines_in(job.folder / "run/metrics.jsonl") == lines);
    for (const char* line : {"\"type\":\"train\"", "\"type\":\"test\""})
      CHECK(has(read_text(job.folder / "run/metrics.jsonl"), line));
    CHECK(Json::parse(read_text(job.folder / "run/run.lock"))["fence"] == 1);
  }
  for (const char* program : {"poseidon-train", "poseidon-worker", "poseidon-server",
                              "poseidon-data", "poseidon-import", "poseidon-export"})
    CHECK(shell(job, std::string(program) + " --help <&- >&- 2>&-").code == 0);
}

TEST_CASE("USR1, USR2 and XCPU of batch systems: the run completes its step and saves it") {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU}) {
    const TinyJob job;
    const fs::path output = job.folder / "run";
    Program program("poseidon-train",
                    {(job.folder / "job.json").string(), "--output", output.string(), "--set",
                     "train.steps=100000000", "--set", "train.log_every=1"},
                    job.folder);
    REQUIRE(eventually([&] { return has(program.err(), "step 3/"); }));
    program.send(signal);
    const Finished finished = program.wait();
    CHECK(finished.code == 0);
    CHECK(has(finished.err, ": stopping after this step; SIGINT twice ends the process at once"));
    CHECK(has(finished.err, "stopped after step "));
    const auto steps = Json::parse(read_text(output / "summary.json"))["steps"].get<int64_t>();
    CHECK(fs::exists(output / "checkpoints" / text("step-", steps, ".state")));
  }
}

TEST_CASE("--stop-signals sets the signals that stop a run") {
  const TinyJob job;
  Program program(
      "poseidon-train",
      {(job.folder / "job.json").string(), "--output", (job.folder / "run").string(), "--set",
       "train.steps=100000000", "--set", "train.log_every=1", "--stop-signals", "SIGALRM,USR2"},
      job.folder);
  REQUIRE(eventually([&] { return has(program.err(), "step 3/"); }));
  program.send(SIGUSR1);
  program.send(SIGXCPU);
  program.send(SIGALRM);
  const Finished finished = program.wait();
  CHECK(finished.code == 0);
  CHECK(has(finished.err, "SIGALRM: stopping after this step"));
  CHECK_FALSE(has(finished.err, "SIGUSR1"));
  CHECK(has(continuing_command(finished.err), "--stop-signals SIGALRM,USR2"));
  const Finished refused = run(job, {"--stop-signals", "KILL"});
  CHECK(refused.code == 2);
  CHECK(has(refused.err,
            "--stop-signals: expected signal names such as USR1,USR2,XCPU, got \"KILL\""));
}

TEST_CASE("--stop-signals none ignores the signals of batch systems") {
  const TinyJob job;
  Program program("poseidon-train",
                  {(job.folder / "job.json").string(), "--output", (job.folder / "run").string(),
                   "--set", "train.steps=100000000", "--stop-signals", "none"},
                  job.folder);
  REQUIRE(eventually([&] { return has(program.err(), "step 4/"); }));
  for (const int signal : {SIGUSR1, SIGUSR2, SIGXCPU, SIGTERM}) program.send(signal);
  const Finished finished = program.wait();
  CHECK(finished.code == 0);
  CHECK(has(finished.err, "SIGTERM: stopping after this step"));
  CHECK(has(continuing_command(finished.err), "--stop-signals none"));
}

TEST_CASE("a stop signal to the whole process group does not end local workers and servers") {
  for (const int signal : {SIGXCPU, SIGALRM}) {
    CAPTURE(signal);
    const TinyJob job;
    Program program(
        "poseidon-train",
        {(job.folder / "job.json").string(), "--output", (job.folder / "run").string(), "--workers",
         "2", "--servers", "1", "--set", "train.steps=100000000", "--stop-signals", "XCPU,ALRM"},
        job.folder, "", true);
    REQUIRE(eventually([&] { return has(program.err(), "step 4/"); }));
    REQUIRE(kill(-program.process(), signal) == 0);
    const Finished finished = program.wait();
    CHECK(finished.code == 0);
    CHECK(has(finished.err, "stopped after step "));
  }
}

TEST_CASE("runs of one job that start in the same second use separate folders") {
  const TinyJob job;
  const Finished all =
      shell(job,
            "all=; for i in 1 2 3 4 5; do poseidon-train job.json & all=\"$all $!\"; done; "
            "for i in $all; do wait $i || exit 1; done");
  CAPTURE(all.err);
  CHECK(all.code == 0);
  std::set<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(job.folder / "runs"))
    if (fs::exists(entry.path() / "summary.json")) folders.insert(entry.path());
  CHECK(folders.size() == 5);
}

TEST_CASE("a run that fails after a step exits with 1 and names checkpoint and resume command") {
  const TinyJob job;
  const Finished finished =
      run(job, {"--output", (job.folder / "run").string(), "--set", "optimizer.learning_rate=1e15",
                "--set", "optimizer.schedule=null", "--set", "optimizer.weight_decay=0", "--set",
                "optimizer.momentum=0"});
  CHECK(finished.code == 1);
  CHECK(has(finished.err, "; the last checkpoint is "));
  CHECK(has(continuing_command(finished.err), "poseidon-train --resume "));
  CHECK(has(read_text(job.folder / "run/console.log"), "error: step "));
}

TEST_CASE("the printed resume command continues a stopped run") {
  const TinyJob job;
  const Finished first = shell(job, "poseidon-train job.json --output 'my run' --max-steps 4");
  CHECK(first.code == 0);
  const std::string command = continuing_command(first.err);
  CHECK(command == "poseidon-train --resume 'my run'");
  const Finished rest = shell(job, command);
  CHECK(rest.code == 0);
  CHECK(Json::parse(read_text(job.folder / "my run/summary.json"))["steps"] == 9);
}

TEST_CASE("the printed resume command continues a run of several workers") {
  const TinyJob job;
  const Finished first = shell(
      job,
      "poseidon-train job.json --output run --workers 2 --servers 1 --threads 1 --max-steps 4");
  CHECK(first.code == 0);
  const std::string command = continuing_command(first.err);
  CHECK(command == "poseidon-train --resume run --workers 2 --servers 1");
  const Finished rest = shell(job, command);
  CHECK(rest.code == 0);
  const Json summary = Json::parse(read_text(job.folder / "run/summary.json"));
  CHECK(summary["steps"] == 9);
  CHECK(summary["workers"] == 2);
  CHECK(summary["sessions"].size() == 2);
  // No step is left. The last test is not repeated, and its result is kept.
  const std::string lines = read_text(job.folder / "run/metrics.jsonl");
  CHECK(shell(job, command).code == 0);
  CHECK(read_text(job.folder / "run/metrics.jsonl") == lines);
  const Json again = Json::parse(read_text(job.folder / "run/summary.json"));
  for (const char* key : {"train_loss", "test_top1", "test_step", "weights_sha256"})
    CHECK(again[key] == summary[key]);
}

TEST_CASE("a trace that cannot be written does not prevent the results") {
  for (const bool has_several : {false, true}) {
    CAPTURE(has_several);
    const TinyJob job;
    std::vector<std::string> words{(job.folder / "job.json").string(),
                                   "--output",
                                   (job.folder / "run").string(),
                                   "--trace",
                                   "--set",
                                   "train.steps=100000000"};
    if (has_several) words.insert(words.end(), {"--workers", "2", "--servers", "1"});
    Program program("poseidon-train", words, job.folder);
    REQUIRE(eventually([&] { return has(program.err(), "step 4/"); }));
    fs::create_directories(job.folder / "run/trace.json/occupied");
    program.send(SIGTERM);
    const Finished finished = program.wait();
    CHECK(finished.code == 0);
    CHECK(has(finished.err, "/run/trace.json: cannot be "));
    const Json summary = Json::parse(read_text(job.folder / "run/summary.json"));
    CHECK(Json::parse(read_text(job.folder / "run/traffic.json"))["steps"] ==
          (has_several ? summary["steps"] : Json(0)));
  }
}

TEST_CASE("the printed resume command continues a run of daemons") {
  Cluster cluster;
  cluster.start("poseidon-worker", "worker-a");
  cluster.start("poseidon-worker", "worker-b");
  cluster.start("poseidon-server", "server");
  const Finished first = cluster.train("run", {"--max-steps", "4"}).wait();
  CHECK(first.code == 0);
  const std::string command = continuing_command(first.err);
  CHECK(has(command, " --external --listen " + cluster.address + " --secret-file "));
  CHECK(shell(cluster.job, command).code == 0);
  CHECK(Json::parse(read_text(cluster.job.folder / "run/summary.json"))["steps"] == 9);
}

TEST_CASE("the summary uses the singular for one step") {
  const TinyJob job;
  CHECK(run(job, {"--output", (job.folder / "run").string(), "--max-steps", "1"})
            .out.starts_with("tiny: 1 step in "));
}

TEST_CASE("too small file-size and open-file limits (ulimit) are refused before a run begins") {
  const TinyJob job;
  // 1024 bytes (2 blocks of 512): LLVM's OpenMP runtime creates a file of that size.
  const Finished small = shell(job, "ulimit -f 2; poseidon-train job.json --output run");
  CHECK(small.code == 2);
  CHECK(has(small.err, "the limit on the size of a file (ulimit -f) is "));
  CHECK_FALSE(fs::exists(job.folder / "run"));
  const Finished files = shell(job, "ulimit -n 10; poseidon-train job.json --output run");
  CHECK(files.code == 2);
  CHECK(has(files.err, "the limit on open files (ulimit -n) is 10, expected at least "));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("too many threads are refused, and the message states the possible number") {
  const TinyJob job;
  const Finished finished =
      shell(job, "ulimit -v 2000000; poseidon-train job.json --output run --threads 1024");
  CHECK(finished.code == 2);
  CHECK(has(finished.err, ": /device/threads: expected at most "));
  CHECK(has(finished.err, ", got 1024: this process cannot start more threads ("));
  const Finished none = shell(job, "ulimit -v 60000; poseidon-train job.json --output run");
  CHECK(none.code != 0);
  CHECK_FALSE(has(none.err, "internal error"));
}
#endif

TEST_CASE("a file above its size limit (ulimit -f) is an error like a full disk") {
  const TinyJob job;
  const Finished finished =
      shell(job,
            "ulimit -f 1; poseidon-data pack job.json --output set 2>&1; echo $?; "
            "poseidon-train --reference > text; echo $?");
  CHECK(has(finished.out, "\n1\n"));
  CHECK(has(finished.err, "standard output: cannot be written: "));
}
