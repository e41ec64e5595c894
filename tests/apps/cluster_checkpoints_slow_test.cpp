// Checkpoints of real processes under faults. The run directory must contain only checkpoints of an
// undisturbed run. If a checkpoint cannot be written, all nodes must report it.

#include <doctest/doctest.h>
#include <sys/mount.h>

#include "core/json.h"
#include "tests/apps/processes.h"
#include "trainer/state/checkpoint.h"

using namespace poseidon;
using namespace poseidon::apps;
using trainer::read_text;
using trainer::TinyJob;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> words_of(const TinyJob& job, int workers, const fs::path& output) {
  return {(job.folder / "job.json").string(),
          "--threads",
          "1",
          "--workers",
          std::to_string(workers),
          "--output",
          output.string(),
          "--set",
          "cluster.logical_shards=3",
          "--set",
          "comm.scheme=ps",
          "--set",
          "data.global_batch=12",
          "--set",
          "cluster.timeout_s=3",
          "--set",
          "train.checkpoint_every=1",
          "--set",
          "train.log_every=1000",
          "--json"};
}

Program start(const TinyJob& job, int workers, const fs::path& output,
              const std::vector<std::string>& more) {
  std::vector<std::string> words = words_of(job, workers, output);
  words.insert(words.end(), more.begin(), more.end());
  const fs::path folder = job.folder / (output.filename().string() + "-words");
  fs::create_directories(folder);
  return Program("poseidon-train", words, folder);
}

std::vector<fs::path> checkpoints_in(const fs::path& run) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints", none))
    if (entry.path().extension() == ".state") files.push_back(entry.path());
  return files;
}

/// A folder on a separate tmpfs of this size. there() is false if it cannot be mounted.
class SmallDisk {
 public:
  SmallDisk(const fs::path& path, const std::string& bytes) : path_(path) {
    fs::create_directories(path);
    mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, ("size=" + bytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool there() const { return mounted_; }

 private:
  fs::path path_;
  bool mounted_ = false;
};

}  // namespace

TEST_CASE(
    "a worker fails while another streams: all checkpoints equal those of an undisturbed run") {
  const TinyJob job;
  // The layer has several slices, so a checkpoint takes about as long as a step.
  std::string network = read_text(job.folder / "tiny_network.json");
  network.replace(network.find("\"outputs\": 5"), 12, "\"outputs\": 900");
  trainer::write_text(job.folder / "tiny_network.json", network);
  const fs::path whole = job.folder / "whole";
  REQUIRE(start(job, 1, whole, {"--max-steps", "9"}).wait().code == 0);
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    const fs::path run = job.folder / ("run-" + std::to_string(round));
    Program train = start(job, 3, run, {"--set", "comm.bandwidth_limit_mbps=20"});
    REQUIRE(within(60, [&] { return !checkpoints_in(run).empty(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(74 * round));
    for (const Process& member : members_of(train.process(), run))
      if (member.name == "worker 2") kill(member.pid, SIGKILL);
    const Finished finished = train.wait();
    CAPTURE(finished.err);
    if (finished.code == 0) continue;  // the job had ended before the fault
    CHECK(finished.code == 3);
    for (const fs::path& file : checkpoints_in(run)) {
      CAPTURE(file.string());
      const trainer::Checkpoint read_back(file);
      const fs::path weights = read_back.weights_file().filename();
      CHECK(read_text(run / "checkpoints" / weights) == read_text(whole / "checkpoints" / weights));
    }
    const Finished resumed =
        Program("poseidon-train", {"--resume", run.string(), "--json"}, job.folder).wait();
    CAPTURE(resumed.err);
    REQUIRE(resumed.code == 0);
    CHECK(Json::parse(resumed.out)["state_sha256"] ==
          Json::parse(read_text(whole / "summary.json"))["state_sha256"]);
  }
}

TEST_CASE(
    "a full disk ends a job of several workers with one message, and keeps the last checkpoint") {
  const TinyJob job;
  const SmallDisk disk(job.folder / "disk", "200k");
  if (!disk.there()) return;  // mounting needs privileges
  const fs::path run = job.folder / "disk/run";
  const Finished finished =
      start(job, 2, run, {"--set", "train.steps=2000", "--set", "train.log_every=1"}).wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 1);
  CHECK(finished.err.find("cannot be written: No space left on device; the last checkpoint is ") !=
        std::string::npos);
  const std::vector<fs::path> states = checkpoints_in(run);
  CHECK(!states.empty());
  for (const fs::path& file : states) CHECK_NOTHROW(trainer::Checkpoint{file});
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "checkpoints"))
    CHECK(entry.path().extension() != ".tmp");
}

TEST_CASE("a missing checkpoint folder ends the job, and every member's log states the reason") {
  const TinyJob job;
  const fs::path run = job.folder / "run";
  Program train = start(job, 2, run, {"--set", "train.steps=100000"});
  REQUIRE(within(60, [&] { return !checkpoints_in(run).empty(); }));
  fs::rename(run / "checkpoints", run / "elsewhere");
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  CHECK(finished.code == 1);
  CHECK(finished.err.find("No such file or directory") != std::string::npos);
  for (const char* log : {"worker-0.log", "worker-1.log", "server-0.log"})
    CHECK(read_text(run / "logs" / log).find("No such file or directory") != std::string::npos);
}

TEST_CASE(
    "a second --resume of a running run is refused, and the message names the running process") {
  const TinyJob job;
  const fs::path run = job.folder / "run";
  REQUIRE(start(job, 1, run, {"--max-steps", "2"}).wait().code == 0);
  Program first("poseidon-train", {"--resume", run.string(), "--set", "train.steps=1000000"},
                job.folder);
  REQUIRE(within(30, [&] {
    return read_text(run / "run.lock").find(std::to_string(first.process())) != std::string::npos;
  }));
  first.send(SIGSTOP);
  for (const char* workers : {"1", "2"}) {
    const fs::path folder = job.folder / (std::string("second-") + workers);
    fs::create_directories(folder);
    const Finished second =
        Program("poseidon-train", {"--resume", run.string(), "--workers", workers}, folder).wait();
    CHECK(second.code == 2);
    CHECK(second.err.find("another run writes here: process " + std::to_string(first.process())) !=
          std::string::npos);
  }
  first.send(SIGKILL);
  first.wait();
}

TEST_CASE("a failed start of several workers leaves no folder") {
  const TinyJob job;
  const fs::path run = job.folder / "run";
  CHECK(start(job, 2, run, {"--weights", "no-such-file"}).wait().code == 2);
  CHECK(!fs::exists(run));
  Program train = start(job, 2, run, {"--set", "train.steps=1000000"});
  REQUIRE(within(30, [&] { return fs::exists(run / "run.lock"); }));
  train.send(SIGTERM);
  const Finished finished = train.wait();
  CAPTURE(finished.err);
  const bool before_the_first =
      finished.err.find("stopped before the first step") != std::string::npos;
  CHECK(fs::exists(run) == !before_the_first);
}
