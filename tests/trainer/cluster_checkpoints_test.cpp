#include "trainer/coordinator/cluster_checkpoints.h"

#include <doctest/doctest.h>

#include <future>

#include "tests/support/warning_log.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/state/send_window.h"
#include "trainer/step/cluster_exchange.h"
#include "trainer/step/job_failed.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

const Json kList{{"parameters", 1},
                 {"weights", {{{"name", "a.weight"}, {"shape", {2, 3}}}}},
                 {"optimizer", {{{"name", "a.weight.velocity"}, {"shape", {2, 3}}}}},
                 {"sums", Json::array()},
                 {"sum_steps", 0}};

/// A run directory, and the checkpoints of a job that arrive from workers.
struct Run {
  Run() { directory.make(); }

  std::shared_ptr<TensorStore> store(float value) const {
    auto made = std::make_shared<TensorStore>(kList);
    for (TensorStore::Entry& entry : made->entries()) std::ranges::fill(entry.values(), value);
    return made;
  }
  static std::vector<int64_t> digest_of(const std::shared_ptr<TensorStore>& store) {
    return tensor_digests(store->tensors(), 0);
  }
  void take(uint16_t worker, int64_t step, float value) {
    const auto sent = store(value);
    checkpoints.take(worker, step, sent, {.number = 1, .digest = digest_of(sent)});
  }
  bool has(int64_t step) const {
    return fs::exists(directory.checkpoints() / text("step-", step, ".state"));
  }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(directory.checkpoints()), {}));
  }

  const TinyJob job;
  RunDirectory directory{job.folder / "run", false};
  std::vector<std::pair<uint16_t, int64_t>> told;
  ClusterCheckpoints checkpoints{
      directory, 0,
      [](int64_t step) {
        return RunState{.step = step, .config_hash = "", .config = Json::object(), .dataset = ""};
      },
      [this](uint16_t worker, int64_t step) { told.emplace_back(worker, step); }};
};

}  // namespace

TEST_CASE("a worker's checkpoint is written when all workers agree on its values") {
  Run run;
  run.take(0, 4, 1);
  CHECK(run.files() == 0);
  CHECK(run.told.empty());
  run.checkpoints.agreed(4, Run::digest_of(run.store(1)));
  CHECK(run.has(4));
  CHECK(run.checkpoints.saved_step() == 4);
  CHECK(run.told == std::vector<std::pair<uint16_t, int64_t>>{{0, 4}});
  run.checkpoints.agreed(8, Run::digest_of(run.store(2)));
  run.take(0, 8, 2);
  CHECK(run.has(8));
}

TEST_CASE("a checkpoint that differs from the agreed values is not written") {
  Run run;
  run.take(0, 4, 1);
  CHECK(
      error_of<RunError>([&] { run.checkpoints.agreed(4, Run::digest_of(run.store(2))); }) ==
      "step 4: worker 0 sent a checkpoint that differs from the values that the workers agreed on");
  CHECK(run.files() == 0);
  CHECK(!run.checkpoints.wants(5));
}

TEST_CASE("a received checkpoint must match its sender's digest, also after a failure") {
  Run run;
  run.checkpoints.trust_survivors();
  CHECK(error_of<RunError>([&] {
          run.checkpoints.take(1, 5, run.store(0),
                               {.number = 1, .digest = Run::digest_of(run.store(3))});
        }) ==
        "step 5: \"a.weight\" in the checkpoint differs from the value that the workers agreed on");
  CHECK(run.files() == 0);
}

TEST_CASE("after a failure a survivor's digest is sufficient, also for an earlier checkpoint") {
  Run run;
  run.take(0, 100, 1);
  run.checkpoints.trust_survivors();
  run.take(1, 101, 2);
  CHECK(run.has(100));
  CHECK(run.has(101));
  const Checkpoint newest(run.directory.checkpoints() / "step-101.state");
  const auto read = run.store(0);
  newest.restore(read->tensors());
  CHECK(Run::digest_of(read) == Run::digest_of(run.store(2)));
}

TEST_CASE("a failed write keeps the older checkpoint and leaves no partial file") {
  Run run;
  run.checkpoints.trust_survivors();
  run.take(0, 4, 1);
  // A non-empty folder occupies the name of the file.
  fs::create_directories(run.directory.checkpoints() / "step-5.state" / "in the way");
  const std::string error = error_of<RunError>([&] { run.take(0, 5, 1); });
  CHECK(error.find("step-5.state: cannot be renamed to its final name: ") != std::string::npos);
  CHECK(run.has(4));
  CHECK(run.files() == 3);
  CHECK(!run.checkpoints.wants(6));
  CHECK(run.checkpoints.saved_step() == 4);
}

TEST_CASE("a writer writes nothing after another process took over the run directory") {
  Run run;
  run.checkpoints.trust_survivors();
  // The lock file after another process took over the directory, while this process was stopped on
  // another host. File locks do not work there.
  write_text(run.directory.path() / "run.lock", R"({"host": "head", "pid": 7, "fence": 2})");
  CHECK(error_of<RunError>([&] { run.take(0, 4, 1); }) ==
        run.directory.path().string() + ": was taken over by process 7 on \"head\"");
  CHECK(run.files() == 0);
  CHECK(error_of<RunError>([&] { run.directory.write("summary.json", Json()); }) != "");
}

namespace {

/// A run of the tiny job after the checkpoints of steps 2, 4 and 6. Nothing writes to it any more.
struct SavedRun {
  SavedRun() {
    job.run("run", {"train.checkpoint_every=2", "train.keep_checkpoints=0"}, {.max_steps = 6});
    directory.make();
    checkpoints.begin_from({.step = 6}, file(6));
  }
  fs::path file(int64_t step, const char* kind = ".safetensors") const {
    return job.folder / "run/checkpoints" / text("step-", step, kind);
  }
  void damage(const fs::path& path) const {
    std::string bytes = read_text(path);
    bytes[bytes.size() / 2] ^= 1;
    write_text(path, bytes);
  }
  int64_t gone_back_to() {
    const Checkpoint* intact = checkpoints.hold(loaded, 0, log);
    return intact == nullptr ? 0 : intact->state().step;
  }

  const TinyJob job;
  const Job loaded = job.load();
  RunDirectory directory{job.folder / "run", true};
  WarningLog log;
  ClusterCheckpoints checkpoints{directory, 0, [](int64_t) { return RunState(); },
                                 [](uint16_t, int64_t) {}};
};

}  // namespace

TEST_CASE("a job returns to the last intact checkpoint if later ones are damaged or missing") {
  for (const char* kind : {".safetensors", ".state"}) {
    SavedRun run;
    CHECK(run.gone_back_to() == 6);
    CHECK(run.log.lines().empty());
    run.damage(run.file(6, kind));
    CHECK(run.gone_back_to() == 4);
    CHECK(run.log.lines().find(text("step-6", kind, ": is corrupt")) != std::string::npos);
    CHECK(run.checkpoints.saved_step() == 4);
    CHECK(run.checkpoints.wants(6));  // written again
    fs::resize_file(run.file(4, kind), 40);
    CHECK(run.gone_back_to() == 2);
    fs::remove(run.file(2, kind));
    CHECK(run.gone_back_to() == 0);
    CHECK(run.log.lines().find("no checkpoint is intact: ") != std::string::npos);
    CHECK(run.log.lines().ends_with("; the job restarts from its initial values"));
    CHECK(run.checkpoints.saved_step() == 0);
    CHECK(run.checkpoints.last().empty());
  }
}

TEST_CASE("a worker buffers at most one window of its checkpoint") {
  SendWindow window(100 * sizeof(float));
  auto large = window.allocate(1000);  // the only buffer may be larger than the window
  auto waiting = std::async(std::launch::async, [&] { return window.allocate(60); });
  CHECK(waiting.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  large.reset();
  const auto small = waiting.get();
  const auto another = window.allocate(40);
  auto more = std::async(std::launch::async, [&] { return window.allocate(1); });
  CHECK(more.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  window.end();
  CHECK_THROWS_AS(more.get(), JobFailed);
}

TEST_CASE("a worker begins no checkpoint before the previous one is written") {
  SendWindow window(100);
  window.begin(4);
  auto next = std::async(std::launch::async, [&] { window.begin(8); });
  CHECK(next.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  window.written(3);
  CHECK(next.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout);
  window.written(4);
  next.get();
  window.end();
  CHECK_THROWS_AS(window.wait_until_written(), JobFailed);
  window.reopen();
  window.begin(9);
}
