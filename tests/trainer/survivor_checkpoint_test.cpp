#include "trainer/state/survivor_checkpoint.h"

#include <doctest/doctest.h>

#include <atomic>
#include <optional>
#include <thread>

#include "tests/trainer/tiny_job.h"
#include "trainer/report/checkpoint_files.h"
#include "trainer/state/directory_lock.h"

namespace poseidon::trainer {

namespace {

constexpr auto kSoon = std::chrono::milliseconds(60);
constexpr auto kLong = std::chrono::seconds(30);
constexpr auto kAlways = [] {};  // writing is allowed

RunState step_6() {
  RunState state;
  state.step = 6;
  state.config_hash = "hash";
  state.config = {{"seed", 1}};
  state.dataset = "fingerprint";
  return state;
}

RunTensors one_tensor() {
  const auto get = [](std::span<float> values) { std::ranges::fill(values, 1.5F); };
  RunTensors tensors;
  tensors.weights = {{.name = "w", .shape = Shape{2, 3}, .get = get, .set = {}}};
  tensors.parameters = 1;
  return tensors;
}

}  // namespace

TEST_CASE("a survivor writes next to a stopped writer and does not touch its files") {
  const TinyJob job;
  const auto folder = job.folder / "checkpoints";
  std::filesystem::create_directory(folder);
  const auto half_done = folder / "step-6.state.tmp";
  const auto write = [&] {
    return write_survivor_checkpoint(folder, step_6(), one_tensor(), kSoon, kAlways);
  };
  std::optional<DirectoryLock> stopped(std::in_place, folder, kSoon);
  std::optional<DirectoryLock> other_survivor(std::in_place, job.folder, kSoon);
  write_text(half_done, "half of it");
  CHECK(error_of<RunError>(write) ==
        job.folder.string() + ": another process still holds the directory lock");
  other_survivor.reset();
  CHECK(write());
  CHECK(Checkpoint(folder / "step-6.state").state().step == 6);
  CHECK(read_text(half_done) == "half of it");
  CHECK_FALSE(write());
  stopped.reset();
  std::filesystem::remove(folder / "step-6.state");
  CHECK(write());
  CHECK_FALSE(std::filesystem::exists(half_done));
}

TEST_CASE("a survivor writes nothing after another run took over the folder") {
  const TinyJob job;
  for (const int allowed : {0, 1, 2}) {
    int calls = 0;
    const auto may_write = [&] {
      if (calls++ == allowed) throw RunError("another run writes to it");
    };
    CHECK(error_of<RunError>([&] {
            write_survivor_checkpoint(job.folder, step_6(), one_tensor(), kSoon, may_write);
          }) == "another run writes to it");
    CHECK_FALSE(std::filesystem::exists(job.folder / "step-6.state"));
    CHECK_FALSE(std::filesystem::exists(job.folder / "step-6.safetensors"));
  }
}

TEST_CASE("a live coordinator waits for a survivor that holds the directory lock") {
  const TinyJob job;
  RunDirectory directory(job.folder / "run", false);
  directory.make();
  CheckpointFiles files(directory, 0);
  std::optional<DirectoryLock> turn(std::in_place, directory.checkpoints(), kSoon);
  std::atomic<bool> written = false;
  std::thread coordinator([&] {
    files.write(step_6(), one_tensor());
    written = true;
  });
  std::this_thread::sleep_for(kSoon);
  CHECK_FALSE(written);
  turn.reset();
  coordinator.join();
  CHECK(written);
  CHECK_FALSE(
      write_survivor_checkpoint(directory.checkpoints(), step_6(), one_tensor(), kLong, kAlways));
}

TEST_CASE("partial files of a killed writer are removed unless another process holds the run") {
  const TinyJob job;
  RunDirectory directory(job.folder / "run", false);
  directory.make();
  directory.keep();
  const auto half_done = directory.checkpoints() / "step-6.state.tmp";
  write_text(half_done, "half of it");
  directory.tidy();
  CHECK_FALSE(std::filesystem::exists(half_done));
  write_text(half_done, "another's");
  write_text(directory.path() / "run.lock", "another's\n");
  directory.tidy();
  CHECK(std::filesystem::exists(half_done));
}

}  // namespace poseidon::trainer
