// A GPU's updates give the bits of the CPU's.

#include <doctest/doctest.h>

#include <bit>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/philox.h"
#include "layers/cpu/update.h"
#include "tests/support/layer_backend.h"

using namespace poseidon;
using layers::UpdateMemory;
using layers::UpdateParameters;
using layers::UpdateRule;

namespace {

/// The CPU's updater, and a GPU's updater with device memory.
class Pair {
 public:
  layers::Updater& cpu() { return *cpu_; }
  layers::Updater& gpu() { return *backend_.updater; }

  /// Copies the values to GPU memory that starts `offset` values after a multiple of 64 bytes.
  std::span<float> bring(std::span<const float> values, size_t offset) {
    return brought(values, offset);
  }
  std::span<Bf16> bring(std::span<const Bf16> values, size_t offset) {
    return brought(values, offset);
  }
  const UpdateParameters* bring(const UpdateParameters& numbers) {
    static_assert(sizeof(UpdateParameters) % sizeof(float) == 0);
    const std::span floats(reinterpret_cast<const float*>(&numbers),
                           sizeof numbers / sizeof(float));
    return reinterpret_cast<const UpdateParameters*>(bring(floats, 0).data());
  }

  /// Frees the memory of bring().
  void forget() { buffers_.clear(); }

  /// Whether the values on the GPU have these bits. Waits for the GPU's work.
  bool is(std::span<const float> there, std::span<const float> expected) {
    return equal(there, expected);
  }
  bool is(std::span<const Bf16> there, std::span<const Bf16> expected) {
    return equal(there, expected);
  }

 private:
  Device& device() { return *backend_.device; }
  template <class Value>
  std::span<Value> brought(std::span<const Value> values, size_t offset) {
    const size_t bytes = (values.size() + offset) * sizeof(Value);
    buffers_.push_back(device().allocate(bytes, MemoryKind::kDevice, "a test"));
    const std::span<Value> all(static_cast<Value*>(buffers_.back().data()), values.size() + offset);
    const std::span<Value> there = all.subspan(offset);
    if (!there.empty()) device().write(std::as_bytes(values), std::as_writable_bytes(there));
    return there;
  }
  template <class Value>
  bool equal(std::span<const Value> there, std::span<const Value> expected) {
    std::vector<Value> got(there.size());
    if (!there.empty()) device().read(std::as_bytes(there), std::as_writable_bytes(std::span(got)));
    if (got.empty()) return expected.empty();
    return got.size() == expected.size() &&
           std::memcmp(got.data(), expected.data(), there.size_bytes()) == 0;
  }

  test::LayerBackend backend_ = test::make_layer_backend(1, DataType::kFp32);
  cpu::ThreadTeam team_{2};
  std::unique_ptr<layers::Updater> cpu_ = layers::cpu::make_cpu_updater(team_);
  std::vector<Buffer> buffers_;
};

/// Values of all magnitudes, with some zeros and subnormal numbers.
std::vector<float> mixed_values(size_t count, uint64_t seed, bool positive = false) {
  RandomStream random(seed, RandomPurpose::kGeneration, 8, 0);
  std::vector<float> values(count);
  for (float& value : values) {
    value = random.next_uniform(positive ? 0.0F : -1.0F, 1);
    if (random.next_below(8) == 0) value *= 1e-30F;
    if (random.next_below(16) == 0) value *= 1e-12F;
    if (random.next_below(16) == 0) value = 0;
  }
  return values;
}

UpdateParameters numbers_of(UpdateRule rule, bool l1) {
  const bool shrinks = rule == UpdateRule::kAdamW;
  return {.learning_rate = 0.0513F,
          .l2 = shrinks ? 0 : 0.0107F,
          .l1 = l1 ? 0.0021F : 0,
          .shrinkage = shrinks ? 0.0107F : 0,
          .gradient_scale = 0.713F,
          .momentum = 0.9F,
          .smoothing = 0.95F,
          .beta1 = 0.9F,
          .beta2 = 0.999F,
          .one_minus_smoothing = 0.05F,
          .one_minus_beta1 = 0.1F,
          .one_minus_beta2 = 0.001F,
          .correction1 = 0.19F,
          .correction2 = 0.0029F,
          .epsilon = 1e-8F,
          .trust = 0.37F};
}

/// Offsets of an update's tensors: values after a multiple of 64 bytes.
struct Offsets {
  size_t value, gradient, state, rounded = 0;
};

/// Compares one update on both devices. `beside`: the update writes the new values to separate
/// memory, and also rounds them.
void check_update(Pair& pair, UpdateRule rule, bool l1, bool momentum, size_t count,
                  const Offsets& at, bool beside) {
  const UpdateParameters numbers = numbers_of(rule, l1);
  const layers::UpdateForm form{.rule = rule, .l1 = l1};
  const size_t states = layers::state_names(rule, momentum).size();
  std::vector<std::vector<float>> old{mixed_values(count, 1)}, next;
  for (size_t i = 0; i < states; ++i) old.push_back(mixed_values(count, 3 + i, true));
  const std::vector<float> gradient = mixed_values(count, 2);
  next.assign(old.size(), std::vector<float>(count, 77));

  std::vector<std::span<float>> old_there, next_there;
  for (const auto& tensor : old)
    old_there.push_back(pair.bring(tensor, old_there.empty() ? at.value : at.state));
  for (size_t i = 0; i < old.size(); ++i)
    next_there.push_back(beside ? pair.bring(next[i], i == 0 ? at.value : at.state) : old_there[i]);
  UpdateMemory here{
      .value = old[0], .gradient = gradient, .state = {}, .new_value = next[0], .new_state = {}};
  UpdateMemory there{.value = old_there[0],
                     .gradient = pair.bring(gradient, at.gradient),
                     .state = {},
                     .new_value = next_there[0],
                     .new_state = {}};
  for (size_t i = 0; i < states; ++i) {
    here.state[i] = old[1 + i];
    here.new_state[i] = next[1 + i];
    there.state[i] = old_there[1 + i];
    there.new_state[i] = next_there[1 + i];
  }
  std::vector<Bf16> rounded(beside ? count : 0, Bf16(77));
  here.rounded = rounded;
  there.rounded = pair.bring(rounded, at.rounded);
  pair.cpu().update(form, &numbers, here);
  pair.gpu().update(form, pair.bring(numbers), there);
  CHECK(pair.is(there.rounded, rounded));
  for (size_t i = 0; i < old.size(); ++i) {
    CHECK(pair.is(next_there[i], next[i]));
    if (beside) CHECK(pair.is(old_there[i], old[i]));
  }
  pair.forget();
}

void check_rule(UpdateRule rule, bool momentum) {
  CAPTURE(static_cast<int>(rule));
  CAPTURE(momentum);
  Pair pair;
  for (const bool l1 : {false, true}) {
    for (const size_t count : {0, 1, 3, 4, 1027, 4096}) {
      CAPTURE(count);
      for (const bool beside : {false, true}) {
        CAPTURE(beside);
        check_update(pair, rule, l1, momentum, count, {0, 0, 0}, beside);
        check_update(pair, rule, l1, momentum, count, {0, 0, 0, 1}, beside);
        check_update(pair, rule, l1, momentum, count, {3, 3, 3, 3},
                     beside);  // packed, except at the ends
        check_update(pair, rule, l1, momentum, count, {1, 2, 1}, beside);  // one value at a time
      }
    }
  }
}

}  // namespace

TEST_CASE("update: every rule has the CPU's bits, for any alignment, in place or not") {
  for (int rule = 0; rule <= static_cast<int>(UpdateRule::kLars); ++rule)
    for (const bool momentum : {false, true}) check_rule(static_cast<UpdateRule>(rule), momentum);
}

TEST_CASE("update: tensors that span many blocks have the CPU's bits") {
  Pair pair;
  for (const size_t count : {4095, 4097, 100000}) {
    check_update(pair, UpdateRule::kAdamW, true, false, count, {2, 2, 2}, false);
    check_update(pair, UpdateRule::kRmsProp, false, true, count, {0, 1, 0}, true);
  }
}

TEST_CASE("update: a tracked statistic and a sum have the CPU's bits") {
  for (const size_t count : {0, 1, 5, 1023, 4100})
    for (const size_t offset : {0, 1, 2}) {
      CAPTURE(count);
      CAPTURE(offset);
      Pair pair;
      const std::vector<float> a = mixed_values(count, 5), b = mixed_values(count, 6);
      std::vector<float> expected(count);
      const std::span<float> left = pair.bring(a, offset), right = pair.bring(b, offset / 2 * 2);
      const std::span<float> next = pair.bring(expected, offset);
      const layers::Tracking tracking{.momentum = 0.1F, .contribution_weight = 1.0F / 3};
      pair.cpu().track(tracking, a, b, expected);
      pair.gpu().track(tracking, left, right, next);
      CHECK(pair.is(next, expected));
      pair.cpu().add(a, b, expected);
      pair.gpu().add(left, right, next);
      CHECK(pair.is(next, expected));
      pair.gpu().add(left, right, right);
      CHECK(pair.is(right, expected));
    }
}

TEST_CASE("update: EMA and swap have the CPU's bits") {
  for (const size_t count : {0, 1, 5, 1023, 4100})
    for (const size_t offset : {0, 1, 2}) {
      CAPTURE(count);
      CAPTURE(offset);
      Pair pair;
      const std::vector<float> a = mixed_values(count, 7), b = mixed_values(count, 8);
      std::vector<float> expected(count);
      const std::span<float> left = pair.bring(a, offset), right = pair.bring(b, offset / 2 * 2);
      const std::span<float> next = pair.bring(expected, offset);
      const float rate = 0.003F;
      const float* rate_there = pair.bring(std::span(&rate, 1), 0).data();
      pair.cpu().average(&rate, a, b, expected);
      pair.gpu().average(rate_there, left, right, next);
      CHECK(pair.is(next, expected));
      pair.gpu().swap(left, right);
      CHECK(pair.is(left, b));
      CHECK(pair.is(right, a));
      pair.gpu().average(rate_there, right, left, right);
      CHECK(pair.is(right, expected));
    }
}

TEST_CASE("update: combined updates of many tensors have the CPU's bits") {
  constexpr size_t kTensors = 37;  // more than fit in one launch
  Pair pair;
  std::vector<std::vector<float>> here;
  std::vector<std::span<float>> there;
  const auto make = [&](size_t tensor, uint64_t seed, bool positive) {
    here.push_back(mixed_values(tensor * tensor * 7, 100 * tensor + seed, positive));
    there.push_back(pair.bring(here.back(), tensor % 5));
  };
  for (size_t tensor = 0; tensor < kTensors; ++tensor)
    for (uint64_t kind = 0; kind < 5; ++kind) make(tensor, kind, kind == 2 || kind == 3);
  const UpdateParameters numbers = numbers_of(UpdateRule::kAdam, false);
  const float rate = 0.25F;
  const layers::Tracking tracking{.momentum = 0.1F, .contribution_weight = 1.0F / 3};
  // Of each tensor: value, gradient, two states, average. Every third tensor is a statistic.
  const auto issue = [&](layers::Updater& updater, const UpdateParameters* at, const float* rate_at,
                         auto& tensors) {
    updater.combine_updates([&] {
      for (size_t tensor = 0; tensor < kTensors; ++tensor) {
        const auto of = [&](size_t kind) { return std::span<float>(tensors[5 * tensor + kind]); };
        if (tensor % 3 == 0)
          updater.track(tracking, of(0), of(1), of(0));
        else
          updater.update({.rule = UpdateRule::kAdam}, at,
                         {.value = of(0),
                          .gradient = of(1),
                          .state = {of(2), of(3)},
                          .new_value = of(0),
                          .new_state = {of(2), of(3)}});
        updater.average(rate_at, of(4), of(0), of(4));
      }
    });
  };
  issue(pair.gpu(), pair.bring(numbers), pair.bring(std::span(&rate, 1), 0).data(), there);
  issue(pair.cpu(), &numbers, &rate, here);
  for (size_t i = 0; i < here.size(); ++i) {
    CAPTURE(i);
    CHECK(pair.is(there[i], here[i]));
  }
}

TEST_CASE("update: an exception within combined updates drops them") {
  Pair pair;
  const std::vector<float> a = mixed_values(9, 1), b = mixed_values(9, 2);
  const std::span<float> left = pair.bring(a, 0), right = pair.bring(b, 0);
  const layers::Tracking tracking{.momentum = 0.1F};
  CHECK_THROWS_AS(pair.gpu().combine_updates([&] {
    pair.gpu().track(tracking, left, right, left);
    throw std::runtime_error("failed");
  }),
                  std::runtime_error);
  pair.gpu().track(tracking, right, left, right);
  CHECK(pair.is(left, a));
}

TEST_CASE("update: the squared norm has the CPU's bits for few and for many values") {
  Pair pair;
  for (const size_t count : {0, 1, 7, 4095, 4096, 4097, 100000, 3})
    for (const size_t offset : {0, 1}) {
      CAPTURE(count);
      const std::vector<float> values = mixed_values(count, count);
      const double norm = pair.gpu().squared_norm(pair.bring(values, offset));
      CHECK(std::bit_cast<uint64_t>(norm) ==
            std::bit_cast<uint64_t>(pair.cpu().squared_norm(values)));
    }
}
