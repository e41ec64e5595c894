#include "trainer/report/run_directory.h"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "tests/support/full_disk.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/report/disk_space.h"
#include "trainer/state/checkpoint.h"

using namespace poseidon;
using namespace poseidon::trainer;

TEST_CASE("a second writer of a run directory is refused, and the message names the first") {
  const TinyJob job;
  const fs::path path = job.folder / "run";
  {
    RunDirectory first(path, false);
    first.make();
    first.keep();
    const std::string held = RunDirectoryLock::text_in(path);
    CHECK(Json::parse(held)["pid"] == getpid());
    CHECK(Json::parse(held)["fence"] == 1);
    RunDirectory second(path, true);
    const std::string error = error_of<ConfigError>([&] { second.make(); });
    CHECK(error.starts_with(path.string() + ": another run writes here: process " +
                            std::to_string(getpid()) + " on "));
    CHECK(RunDirectoryLock::text_in(path) == held);
  }
  RunDirectory third(path, true);
  third.make();
  CHECK(Json::parse(RunDirectoryLock::text_in(path))["fence"] == 2);
}

TEST_CASE("the lock and the files of a killed process do not block a new run") {
  const TinyJob job;
  const fs::path path = job.folder / "run";
  const pid_t child = fork();
  if (child == 0) {
    RunDirectory directory(path, false);
    directory.make();
    write_text(path / "summary.json.tmp", "half");
    write_text(path / "checkpoints/step-3.safetensors.tmp", "half");
    _exit(0);  // like SIGKILL: no destructor cleans up
  }
  waitpid(child, nullptr, 0);
  REQUIRE(fs::exists(path / "summary.json.tmp"));
  RunDirectory directory(path, true);
  directory.make();
  CHECK(!fs::exists(path / "summary.json.tmp"));
  CHECK(!fs::exists(path / "checkpoints/step-3.safetensors.tmp"));
}

TEST_CASE("a run that does not begin creates no folder and leaves an existing one empty") {
  const TinyJob job;
  const fs::path above = job.folder / "runs", path = above / "deep/run";
  {
    RunDirectory directory(path, false);
    CHECK(!fs::exists(above));
    directory.make();
    directory.write("config.json", Json::object());
  }
  CHECK(!fs::exists(above));
  fs::create_directories(path);
  {
    RunDirectory directory(path, false);
    directory.make();
  }
  CHECK(fs::is_empty(path));
  {
    RunDirectory directory(path, false);
    directory.make();
    directory.keep();
  }
  CHECK(fs::exists(path / "checkpoints"));
}

TEST_CASE("a folder of a process that was killed before the first step can be reused") {
  const TinyJob job;
  const fs::path path = job.folder / "run";
  const pid_t child = fork();
  if (child == 0) {
    RunDirectory directory(path, false);
    directory.make();
    directory.write("config.json", Json::object());
    write_text(path / "metrics.jsonl", "");
    write_text(path / "summary.json.tmp", "half");
    _exit(0);  // like SIGKILL
  }
  waitpid(child, nullptr, 0);
  CHECK(job.run("run", {}, {.max_steps = 1})["steps"] == 1);
  // A run directory with results is not.
  CHECK_THROWS_AS(job.run("run"), ConfigError);
  fs::remove_all(path / "checkpoints");
  CHECK_THROWS_AS(job.run("run"), ConfigError);
}

TEST_CASE("a folder whose lock cannot be written is not changed") {
  const TinyJob job;
  const fs::path path = job.folder / "run";
  {
    const FullDisk full(0);
    RunDirectory directory(path, false);
    CHECK_THROWS_AS(directory.make(), RunError);
  }
  CHECK_FALSE(fs::exists(path));
  RunDirectory first(path, false);
  first.make();
  first.keep();
  RunDirectory second(path, true);
  CHECK_THROWS_AS(second.make(), ConfigError);
  CHECK(fs::exists(path / "run.lock"));
}

TEST_CASE("each run creates a separate folder with the name of the job and the time") {
  const TinyJob job;
  const fs::path before = fs::current_path();
  fs::current_path(job.folder);
  {
    RunDirectory first("tiny"), second("tiny");
    CHECK(first.path() != second.path());
    first.make();
    first.keep();
    CHECK(fs::is_empty(second.path()));
  }
  CHECK(std::distance(fs::directory_iterator("runs"), fs::directory_iterator()) == 1);
  fs::current_path(before);
}

TEST_CASE("an unreadable lock is an error of the environment, not of the user") {
  const TinyJob job;
  RunDirectory directory(job.folder / "run", false);
  directory.make();
  directory.keep();
  std::string contents = RunDirectoryLock::text_in(directory.path());
  write_text(directory.path() / "run.lock", std::string(5000, 'x'));
  CHECK_THROWS_AS(directory.check_lock(), RunError);
  write_text(directory.path() / "run.lock", contents);
  CHECK_NOTHROW(directory.check_lock());
}

TEST_CASE("disk space for a checkpoint is checked before the first step") {
  const TinyJob job;
  SilentLog log;
  const CheckpointBytes some{.weights = 1000, .state = 2000};
  CHECK_NOTHROW(check_disk_space(job.folder, some, {}, 1, log));
  const uint64_t more = fs::space(job.folder).available;
  CHECK(error_of<ConfigError>([&] {
          check_disk_space(job.folder, {.weights = more, .state = 1}, {}, 1, log);
        }).starts_with(job.folder.string() + ": the disk has "));
  const FullDisk limit(4096);
  CHECK(error_of<ConfigError>([&] { check_disk_space(job.folder, some, {}, 1, log); })
            .starts_with("the limit on the size of a file (ulimit -f) is 4.1 kB, but a "
                         "checkpoint of this run has a file of "));
}

TEST_CASE("disk space is needed for the kept checkpoints, the best one and the next one") {
  const TrainConfig all{.checkpoint_every = 10, .keep_checkpoints = 0};
  const TrainConfig two{.checkpoint_every = 10, .keep_checkpoints = 2};
  CHECK(max_new_checkpoints({}, 100, 0) == 1);
  CHECK(max_new_checkpoints(all, 100, 5) == 11);
  CHECK(max_new_checkpoints(two, 100, 0) == 4);
  CHECK(max_new_checkpoints(two, 100, 3) == 1);
  CHECK(max_new_checkpoints(two, 10, 0) == 2);
}

TEST_CASE("a failed start leaves no folder") {
  const TinyJob job;
  const fs::path output = job.folder / "run";
  CHECK_THROWS_AS(job.run("run", {}, {.weights = "no-such-file"}), ConfigError);
  CHECK(!fs::exists(output));
  CHECK_THROWS_AS(job.run("run", {"data.train.type=images", "data.train.path=nowhere"}),
                  std::exception);
  CHECK(!fs::exists(output));
}

TEST_CASE("only the newest checkpoints and the best one are kept") {
  const TinyJob job;
  const fs::path run = job.folder / "run";
  job.run("run", {"train.checkpoint_every=1", "train.keep_checkpoints=2"});
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints"))
    files.push_back(entry.path().filename());
  std::ranges::sort(files);
  CHECK(files == std::vector<std::string>{"step-8.safetensors", "step-8.state",
                                          "step-9.safetensors", "step-9.state"});
  // Simulates a best test after step 3, and an equal one after step 5.
  for (int64_t step : {3, 5, 7})
    for (const char* kind : {".safetensors", ".state"})
      write_text(run / "checkpoints" / text("step-", step, kind), "");
  write_text(run / "metrics.jsonl",
             R"({"type":"test","step":3,"top1":0.5}
{"type":"test","step":4,"top1":0.9}
{"type":"train","step":7,"top1":1}
{"type":"test","step":5,"top1":0.5}
{"type":"test","step":7,"top1":0.4}
)");
  const auto has = [&](int64_t step) {
    return fs::exists(run / "checkpoints" / text("step-", step, ".state"));
  };
  // A checkpoint that was just written is never removed because of later ones. Those are from
  // before the run went back.
  prune_checkpoints(run, 1, 8);
  for (int64_t step : {3, 5, 7, 8, 9}) CHECK(has(step) == (step == 5 || step >= 8));
  prune_checkpoints(run, 1, 9);
  for (int64_t step : {3, 5, 7, 8, 9}) CHECK(has(step) == (step == 5 || step == 9));
}

TEST_CASE("an old run directory without lock and newer keys resumes to the same bits") {
  const TinyJob job;
  const Json whole = job.run("whole");
  job.run("run", {}, {.max_steps = 4});
  const fs::path run = job.folder / "run";
  fs::remove(run / "run.lock");
  Json config = Json::parse(read_text(run / "config.json"));
  config["train"].erase("keep_checkpoints");
  write_text(run / "config.json", config.dump());
  const Json resumed = job.run("", {}, {.resume = run});
  CHECK(resumed["weights_sha256"] == whole["weights_sha256"]);
  CHECK(resumed["state_sha256"] == whole["state_sha256"]);
}

TEST_CASE("a checkpoint of another version is refused, and the message names the version") {
  const TinyJob job;
  job.run("run", {}, {.max_steps = 4});
  const fs::path file = job.folder / "run/checkpoints/step-4.state";
  std::string bytes = read_text(file);
  bytes[8] = 7;
  write_text(file, bytes);
  CHECK(error_of<RunError>([&] { Checkpoint checkpoint(file); }) ==
        file.string() + ": has version 7, this build reads version 1");
}
