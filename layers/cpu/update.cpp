#include "layers/cpu/update.h"

#include <algorithm>
#include <array>
#include <vector>

#include "layers/cpu/team_loops.h"
#include "layers/update_rules.h"

namespace poseidon::layers::cpu {

namespace {

/// A tensor of UpdateMemory: the old elements, and the destination of the new ones.
struct OldAndNew {
  const float* old;
  float* next;
};

OldAndNew state_of(const UpdateMemory& memory, size_t index) {
  return {memory.state[index].data(), memory.new_state[index].data()};
}

template <class Rule, class Decay>
void update_by(ThreadTeam& team, const Rule& rule, const Decay& decay, const UpdateMemory& memory) {
  const OldAndNew value{memory.value.data(), memory.new_value.data()};
  const OldAndNew first = state_of(memory, 0), second = state_of(memory, 1);
  const float* gradient = memory.gradient.data();
  for_each_element(team, static_cast<int64_t>(memory.value.size()), [=](int64_t i) {
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
void combine(ThreadTeam& team, const Rule& rule, std::span<const float> a, std::span<const float> b,
             std::span<float> next) {
  const float *left = a.data(), *right = b.data();
  float* target = next.data();
  for_each_element(team, static_cast<int64_t>(next.size()),
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
  explicit CpuUpdater(ThreadTeam& team) : team_(team) {}

  void update(const UpdateForm& form, const UpdateParameters* numbers,
              const UpdateMemory& memory) override {
    with_update(form, states_of(memory), [&](auto rule, auto decay) {
      using Rule = typename decltype(rule)::type;
      using Decay = typename decltype(decay)::type;
      update_by(team_, Rule(*numbers), Decay(*numbers), memory);
    });
    if (!memory.rounded.empty()) std::ranges::copy(memory.new_value, memory.rounded.begin());
  }

  void track(const Tracking& numbers, std::span<const float> value, std::span<const float> sum,
             std::span<float> next) override {
    combine(team_, TrackRule{numbers}, value, sum, next);
  }

  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    combine(team_, EmaRule{*rate}, average, value, next);
  }

  void swap(std::span<float> a, std::span<float> b) override {
    float *left = a.data(), *right = b.data();
    for_each_element(team_, static_cast<int64_t>(a.size()), [=](int64_t i) {
      const float kept = left[i];
      left[i] = right[i];
      right[i] = kept;
    });
  }

  double squared_norm(std::span<const float> values) override {
    constexpr auto kBlock = static_cast<size_t>(kNormBlock);
    const auto blocks = static_cast<int64_t>((values.size() + kBlock - 1) / kBlock);
    std::vector<double> sums(static_cast<size_t>(blocks));
    for_each_item(team_, blocks, kNormBlock, [&](int64_t b) {
      const size_t first = static_cast<size_t>(b) * kBlock;
      sums[static_cast<size_t>(b)] =
          block_norm(values.subspan(first, std::min(kBlock, values.size() - first)));
    });
    double sum = 0;
    for (double block : sums) sum += block;
    return sum;
  }

  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    combine(team_, AddRule{}, a, b, sum);
  }

 private:
  ThreadTeam& team_;
};

}  // namespace

std::unique_ptr<Updater> make_cpu_updater(ThreadTeam& team) {
  return std::make_unique<CpuUpdater>(team);
}

}  // namespace poseidon::layers::cpu
