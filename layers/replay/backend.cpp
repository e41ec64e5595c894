#include "layers/replay/backend.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/mutex.h"
#include "core/replay/replay_device.h"
#include "layers/replay/replay_layer.h"

namespace poseidon::layers::replay {

namespace {

/// Number of elements of a tensor that an update changes and a norm reads. These elements suffice
/// to show whether an update was made.
constexpr size_t kLookedAt = 16;

template <class Values>
Values first_of(Values values) {
  return values.first(std::min(kLookedAt, values.size()));
}

/// Before the first update that writes to a version of a tensor, bring() copies the whole tensor to
/// this version. Later updates need no copy, because the elements after the first kLookedAt never
/// change.
class Tails {
 public:
  void bring(std::span<const float> from, std::span<float> to) {
    if (from.data() == to.data()) return;  // the update is in place
    {
      MutexLock lock(mutex_);
      if (!brought_.insert(to.data()).second) return;
    }
    std::ranges::copy(from, to.begin());
  }

 private:
  Mutex mutex_;
  std::set<const float*> brought_ GUARDED_BY(mutex_);
};

class ReplayFactory final : public LayerFactory {
 public:
  ReplayFactory(const ReplayTimes& times, ReplayDevice& device)
      : times_(times.layers), device_(device) {}

  Device& device() override { return device_; }
  std::unique_ptr<Layer> make(const LayerRequest& request) override {
    const auto time = times_.find(request.definition.name);
    return std::make_unique<ReplayLayer>(request, time == times_.end() ? LayerTime{} : time->second,
                                         device_);
  }
  // No layers are fused. A layer that was fused in the measured job has no measured time, so it
  // takes no time here.
  bool fuses_relu(const Definition&) const override { return false; }
  bool fuses_residual(const Definition&) const override { return false; }
  void add(std::span<const float>, std::span<float>) override {}
  std::unique_ptr<Layer> make_reorder(const Shape&, Format, Format) override {
    throw LogicError("replayed layers support only one format");
  }

 private:
  const std::map<std::string, LayerTime> times_;
  ReplayDevice& device_;
};

class ReplayUpdater final : public Updater {
 public:
  ReplayUpdater(double ms_per_element, ReplayDevice& device)
      : ms_per_element_(ms_per_element), device_(device) {}

  void update(const UpdateForm&, const UpdateParameters* numbers,
              const UpdateMemory& memory) override {
    device_.work(ms_per_element_ * static_cast<double>(memory.value.size()), [&] {
      tails_.bring(memory.value, memory.new_value);
      for (size_t i = 0; i < std::min(kLookedAt, memory.value.size()); ++i)
        memory.new_value[i] = memory.value[i] - numbers->learning_rate * memory.gradient[i];
    });
  }
  void track(const Tracking& numbers, std::span<const float> value, std::span<const float> sum,
             std::span<float> next) override {
    for (size_t i = 0; i < value.size(); ++i)
      next[i] = value[i] + numbers.momentum * (numbers.contribution_weight * sum[i] - value[i]);
  }
  void average(const float* rate, std::span<const float> average, std::span<const float> value,
               std::span<float> next) override {
    tails_.bring(average, next);
    for (size_t i = 0; i < std::min(kLookedAt, next.size()); ++i)
      next[i] = average[i] + *rate * (value[i] - average[i]);
  }
  void swap(std::span<float> a, std::span<float> b) override { std::ranges::swap_ranges(a, b); }
  double squared_norm(std::span<const float> values) override {
    double sum = 0;
    for (const float value : first_of(values)) sum += double{value} * double{value};
    return sum;
  }
  void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) override {
    std::ranges::transform(a, b, sum.begin(), [](float x, float y) { return x + y; });
  }

 private:
  const double ms_per_element_;
  ReplayDevice& device_;
  Tails tails_;
};

}  // namespace

Backend make_replay_backend(const ReplayTimes& times) {
  auto device = std::make_unique<ReplayDevice>();
  auto factory = std::make_unique<ReplayFactory>(times, *device);
  auto updater = std::make_unique<ReplayUpdater>(times.update_ms_per_element, *device);
  return {std::move(device), std::move(factory), std::move(updater)};
}

}  // namespace poseidon::layers::replay
