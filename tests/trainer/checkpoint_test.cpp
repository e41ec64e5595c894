#include "trainer/state/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>

#include "core/digest.h"
#include "core/error.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// Two weight tensors and one optimizer state, stored in vectors.
struct Memory {
  std::vector<float> weight{1, 2, 3, 4, 5, 6}, mean{7, 8}, velocity{9, 10, 11, 12, 13, 14};
  std::vector<float> older_sum{15, 16}, newer_sum{17, 18};

  RunTensors tensors() {
    const auto named = [](const char* name, const Shape& shape, std::vector<float>& values) {
      return NamedTensor{name, shape,
                         [&](std::span<float> out) { std::ranges::copy(values, out.begin()); },
                         [&](std::span<const float> in) { values.assign(in.begin(), in.end()); }};
    };
    return {.weights = {named("a.weight", {2, 3}, weight), named("a.running_mean", {2}, mean)},
            .parameters = 1,
            .optimizer = {named("a.weight.velocity", {2, 3}, velocity)},
            .sums = {{named("sum.0.a", {2}, older_sum)}, {named("sum.1.a", {2}, newer_sum)}}};
  }
};

RunState state_of(int64_t step) {
  return {.step = step,
          .samples = step * 8,
          .learning_rate = 0.1,
          .config_hash = "hash",
          .config = {{"seed", 1}},
          .choices = {{"a", {{"layout", "blocked16"}}}},
          .dataset = "fingerprint"};
}

void damage(const fs::path& path, size_t at) {
  std::string bytes = read_text(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 0x20);
  write_text(path, bytes);
}

/// A log that keeps warnings.
struct RecordingLog final : Log {
  void info(std::string_view) override {}
  void warning(std::string_view message) override { warnings.emplace_back(message); }
  std::vector<std::string> warnings;
};

}  // namespace

TEST_CASE("a checkpoint that is read equals the one that was written") {
  const TinyJob folder;
  Memory before, after;
  const fs::path weights = write_checkpoint(folder.folder, state_of(12), before.tensors());
  CHECK(weights == folder.folder / "step-12.safetensors");
  for (std::vector<float>* values : {&after.weight, &after.mean, &after.velocity})
    std::fill(values->begin(), values->end(), 0.0f);
  const Checkpoint checkpoint(folder.folder / "step-12.state");
  CHECK(checkpoint.state().step == 12);
  CHECK(checkpoint.state().samples == 96);
  CHECK(checkpoint.state().config == Json{{"seed", 1}});
  CHECK(checkpoint.state().choices["a"]["layout"] == "blocked16");
  CHECK(checkpoint.state().dataset == "fingerprint");
  checkpoint.restore(after.tensors());
  CHECK(after.weight == before.weight);
  CHECK(after.mean == before.mean);
  CHECK(after.velocity == before.velocity);
}

TEST_CASE("a checkpoint stores the sums of all steps in flight") {
  const TinyJob folder;
  for (int64_t in_flight : {0, 1, 2}) {
    Memory before, after;
    after.older_sum = after.newer_sum = {0, 0};
    RunState state = state_of(12);
    state.in_flight = in_flight;
    write_checkpoint(folder.folder, state, before.tensors());
    const Checkpoint checkpoint(folder.folder / "step-12.state");
    CHECK(checkpoint.state().in_flight == in_flight);
    checkpoint.restore(after.tensors());
    CHECK((after.older_sum == before.older_sum) == (in_flight >= 1));
    CHECK((after.newer_sum == before.newer_sum) == (in_flight == 2));
    CHECK(after.velocity == before.velocity);
  }
}

TEST_CASE("unknown sums in flight are refused, and more of them than steps") {
  const TinyJob folder;
  Memory memory;
  RunState state = state_of(12);
  state.in_flight = 2;
  write_checkpoint(folder.folder, state, memory.tensors());
  RunTensors other = memory.tensors();
  other.sums[1][0].name = "sum.1.b";
  CHECK(error_of<ConfigError>([&] {
          Checkpoint(folder.folder / "step-12.state").restore(other);
        }).find("step-12.state: has no sum in flight \"sum.1.b\"") != std::string::npos);
  state.step = 1;
  state.samples = 8;
  write_checkpoint(folder.folder, state, memory.tensors());
  CHECK(error_of<RunError>([&] { Checkpoint(folder.folder / "step-1.state"); })
            .ends_with(
                "step-1.state: carries the sums of 2 steps, expected at most 1, the steps done"));
}

TEST_CASE("a state file that is torn or altered at any byte is refused") {
  const TinyJob folder;
  Memory memory;
  write_checkpoint(folder.folder, state_of(1), memory.tensors());
  const fs::path path = folder.folder / "step-1.state";
  const std::string whole = read_text(path);
  for (size_t length = 0; length < whole.size(); length += 7) {
    write_text(path, whole.substr(0, length));
    CHECK_THROWS_AS(Checkpoint{path}, RunError);
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    write_text(path, whole);
    damage(path, at);
    CHECK_THROWS_AS(Checkpoint{path}, RunError);
  }
  write_text(path, whole);
  CHECK_NOTHROW(Checkpoint{path});
}

TEST_CASE("weights that are altered, cut off or missing are refused") {
  const TinyJob folder;
  Memory memory;
  const fs::path weights = write_checkpoint(folder.folder, state_of(1), memory.tensors());
  const auto refusal = [&] {
    return error_of<RunError>([&] { Checkpoint checkpoint(folder.folder / "step-1.state"); });
  };
  const std::string whole = read_text(weights);
  damage(weights, whole.size() - 1);
  CHECK(refusal().starts_with(weights.string() + ": is corrupt: expected checksum "));
  write_text(weights, whole.substr(0, 20));
  CHECK(refusal() == text(weights.string(), ": is truncated or corrupt: expected ", whole.size(),
                          " bytes, got 20"));
  fs::remove(weights);
  CHECK(refusal() == weights.string() + ": cannot be read: No such file or directory");
}

TEST_CASE("the newest intact checkpoint is opened, and damaged ones are named") {
  const TinyJob folder;
  Memory memory;
  for (int64_t step : {5, 10, 9, 20})
    write_checkpoint(folder.folder, state_of(step), memory.tensors());
  RecordingLog log;
  CHECK(open_checkpoint(folder.folder, log)->state().step == 20);
  CHECK(log.warnings.empty());
  damage(folder.folder / "step-20.state", 40);
  damage(folder.folder / "step-10.safetensors", 200);
  CHECK(open_checkpoint(folder.folder, log)->state().step == 9);
  REQUIRE(log.warnings.size() == 2);
  CHECK(log.warnings[0].find("step-20.state: is corrupt") != std::string::npos);
  CHECK(log.warnings[0].ends_with("; the previous checkpoint is used"));
  // The name selects that checkpoint. If it is damaged, the one before it is used.
  CHECK(open_checkpoint(folder.folder / "step-5.safetensors", log)->state().step == 5);
  CHECK(open_checkpoint(folder.folder / "step-10.state", log)->state().step == 9);
}

TEST_CASE("the error states that there is no checkpoint") {
  const TinyJob folder;
  SilentLog log;
  CHECK(error_of<ConfigError>([&] { open_checkpoint(folder.folder / "no", log); }) ==
        "--resume " + (folder.folder / "no").string() + ": no such run directory or file");
  CHECK(error_of<ConfigError>([&] {
          open_checkpoint(folder.folder, log);
        }).find("there is no checkpoint (a file step-<N>.state)") != std::string::npos);
}

TEST_CASE("the digest of the weights covers only the parameters, as fp32") {
  Memory memory;
  CHECK(weights_sha256(memory.tensors()) == sha256_hex(std::as_bytes(std::span(memory.weight))));
}

TEST_CASE("digests and files do not depend on the bits of a NaN") {
  const TinyJob folder;
  Memory of_cpu, of_gpu;
  of_cpu.weight[4] = of_cpu.velocity[1] = std::bit_cast<float>(0xFFC00000U);
  of_gpu.weight[4] = of_gpu.velocity[1] = std::bit_cast<float>(0x7FFFFFFFU);
  CHECK(tensor_digests(of_cpu.tensors(), 1) == tensor_digests(of_gpu.tensors(), 1));
  CHECK(rotating_tensor_digests(of_cpu.tensors(), 0, 2) ==
        rotating_tensor_digests(of_gpu.tensors(), 0, 2));
  CHECK(weights_sha256(of_cpu.tensors()) == weights_sha256(of_gpu.tensors()));
  write_checkpoint(folder.folder, state_of(3), of_gpu.tensors());
  const std::string weights = read_text(folder.folder / "step-3.safetensors");
  const std::string state = read_text(folder.folder / "step-3.state");
  write_checkpoint(folder.folder, state_of(3), of_cpu.tensors());
  CHECK(read_text(folder.folder / "step-3.safetensors") == weights);
  CHECK(read_text(folder.folder / "step-3.state") == state);
  of_gpu.weight[4] = 0;
  of_cpu.weight[4] = -0.0F;
  CHECK(tensor_digests(of_cpu.tensors(), 1) != tensor_digests(of_gpu.tensors(), 1));
}

TEST_CASE("a checkpoint is renamed to its final name only after read-back verification") {
  const TinyJob folder;
  Memory memory;
  RunTensors tensors = memory.tensors();
  int calls = 0;
  tensors.optimizer[0].get = [&calls](std::span<float> out) {
    std::ranges::fill(out, static_cast<float>(++calls));  // returns other values at each call
  };
  const std::string error =
      error_of<RunError>([&] { write_checkpoint(folder.folder, state_of(3), tensors); });
  CHECK(error.starts_with(
      (folder.folder / "step-3.state").string() +
      ": the values of \"a.weight.velocity\" read back differ from those written"));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.folder))
    CHECK(!entry.path().filename().string().starts_with("step-3"));
}

TEST_CASE("the digest of the state covers statistics, optimizer state and sums in flight") {
  Memory memory;
  const RunTensors tensors = memory.tensors();
  const std::string weights = weights_sha256(tensors);
  std::vector<std::string> seen{state_sha256(tensors, 1)};
  for (std::vector<float>* values : {&memory.mean, &memory.velocity, &memory.older_sum}) {
    values->back() += 1;
    CHECK(weights_sha256(tensors) == weights);
    seen.push_back(state_sha256(tensors, 1));
  }
  memory.newer_sum.back() += 1;
  CHECK(state_sha256(tensors, 1) == seen.back());  // that sum is not in flight
  std::ranges::sort(seen);
  CHECK(std::ranges::adjacent_find(seen) == seen.end());
}
