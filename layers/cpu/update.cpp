#include "layers/cpu/update.h"

#include <algorithm>
#include <array>
#include <vector>

#include "layers/update_rules.h"

namespace poseidon::layers::cpu {

namespace {

/// Below this many elements, waking the threads costs more than the work.
constexpr int64_t kMinParallelElements = 1 << 14;

/// Calls body(i) for every element. The loop is vectorized, and large counts use all threads. Each
/// element is computed independently, so the bits do not depend on the division among threads.
template <class Body>
void for_each_element(int64_t count, const Body& body) {
  if (count < kMinParallelElements) {
    // A copy of the body. Otherwise the compiler assumes that a write may change the body's data,
    // and the loop stays scalar.
    const Body own = body;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) own(i);
    return;
  }
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) body(i);
}

/// A tensor of UpdateMemory: the old elements, and the destination of the new ones.
struct OldAndNew {
  const float* old;
  float* next;
};

OldAndNew state_of(const UpdateMemory& memory, size_t index) {
  return {memory.state[index].data(), memory.new_state[index].data()};
}

template <class Rule, class Decay>
void update_by(const Rule& rule, const Decay& decay, const UpdateMemory& memory) {
  const OldAndNew value{memory.value.data(), memory.new_value.data()};
  const OldAndNew first = state_of(memory, 0), second = state_of(memory, 1);
  const float* gradient = memory.gradient.data();
  for_each_element(static_cast<int64_t>(memory.value.size()), [=](int64_t i) {
    UpdateElement element{.value = value.old[i]};
    if constexpr (Rule::kStates > 0) element.state[0] = first.old[i];
    if constexpr (Rule::kStates > 1) element.state[1] = second.old[i];
    element = rule(element, decay(gradient[i], element.value));
    value.next[i] = element.value;
    if constexpr (Rule::kStates > 0) first.next[i] = element.state[0];
    if constexpr (Rule::kStates > 1) second.next[i] = element.state[1];
  });
}

/// next[i] = rule(a[i], b[i])
template <class Rule>
void combine(const Rule& rule, std::span<const float> a, std::span<const float> b,
             std::span<float> next) {
  const float *left = a.data(), *right = b.data();
  float* target = next.data();
  for_each_element(static_cast<int64_t>(next.size()),
                   [=](int64_t i) { target[i] = rule(left[i], right[i]); });
}

/// The sum of squares of one block. Separate running sums fix the order of the additions, and still
/// allow a vectorized loop.
double block_norm(std::span<const float> values) {
  std::array<double, kNormLanes> lanes{};
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    lanes[i % lanes.size()] += value * value;
  }
  double sum = 0;
  for (double lane : lanes) sum += lane;
  return sum;
}

class CpuUpdater final : public Updater {
 public:
  void update(const UpdateForm& form, const UpdateParameters* numbers,
              const UpdateMemory& memory) override {
    with_update(form, states_of(memory), [&](auto rule, auto decay) {
      using Rule = typename decltype(rule)::type;
      using Decay = typename decltype(decay)::type;
      update_by(Rule(*numbers), Decay(*numbers), memory);
    });
    if (!memory.rounded.empty()) std::ranges::copy(memory.new_value, memory.rounded.begin());
  }

  void track(const Tracking& numbers, std::span<const float> value, std::span<const float> sum,
             std::span<float> next) override {
    combine(TrackRule{numbers}, value, sum, next);
  }

  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    combine(EmaRule{*rate}, average, value, next);
  }

  void swap(std::span<float> a, std::span<float> b) override {
    float *left = a.data(), *right = b.data();
    for_each_element(static_cast<int64_t>(a.size()), [=](int64_t i) {
      const float kept = left[i];
      left[i] = right[i];
      right[i] = kept;
    });
  }

  double squared_norm(std::span<const float> values) override {
    constexpr auto kBlock = static_cast<size_t>(kNormBlock);
    const auto blocks = static_cast<int64_t>((values.size() + kBlock - 1) / kBlock);
    std::vector<double> sums(static_cast<size_t>(blocks));
#pragma omp parallel for schedule(static) if (blocks > 4)
    for (int64_t b = 0; b < blocks; ++b) {
      const size_t first = static_cast<size_t>(b) * kBlock;
      sums[static_cast<size_t>(b)] =
          block_norm(values.subspan(first, std::min(kBlock, values.size() - first)));
    }
    double sum = 0;
    for (double block : sums) sum += block;
    return sum;
  }

  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    combine(AddRule{}, a, b, sum);
  }
};

}  // namespace

std::unique_ptr<Updater> make_cpu_updater() { return std::make_unique<CpuUpdater>(); }

}  // namespace poseidon::layers::cpu
