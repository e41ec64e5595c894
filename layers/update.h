#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "core/bf16.h"

namespace poseidon::layers {

/// The optimizer rules, as PyTorch defines them, and lars (You, Gitman and Ginsburg 2017). With
/// momentum m, the velocity accumulates gradients: v = m v + g. sgd subtracts lr v from the value,
/// and nesterov subtracts lr (g + m v).
/// Caffe multiplies by the learning rate before it accumulates: v = m v + lr g. Both forms are
/// equal until the learning rate changes. Here a new learning rate also applies to the gradients
/// that v already contains.
enum class UpdateRule : uint8_t {
  kSgd,
  kNesterov,
  kAdaGrad,
  kRmsProp,
  kAdaDelta,
  kAdam,
  kAdamW,
  kLars,
};

/// Settings that are the same in all updates of a tensor.
struct UpdateForm {
  UpdateRule rule = UpdateRule::kSgd;
  bool l1 = false;  ///< whether to read UpdateParameters::l1

  bool operator==(const UpdateForm&) const = default;
};

/// Update parameters: the scalars of one update of one tensor. The rules use the gradient g *
/// gradient_scale + l2 * w + l1 * sign(w) of a value w.
struct UpdateParameters {
  float learning_rate = 0;
  float l2 = 0, l1 = 0;
  float shrinkage = 0;       ///< adamw: decoupled weight decay of the value, in place of l2
  float gradient_scale = 1;  ///< factor from gradient clipping
  float momentum = 0;        ///< sgd, nesterov, lars, rmsprop
  float smoothing = 0;       ///< rmsprop, adadelta: decay of the average of squares
  float beta1 = 0, beta2 = 0;
  /// 1 - smoothing, 1 - beta1 and 1 - beta2, computed in double precision. In float, a difference
  /// from a number near 1 has few correct digits.
  float one_minus_smoothing = 1, one_minus_beta1 = 1, one_minus_beta2 = 1;
  float correction1 = 1, correction2 = 1;  ///< adam, adamw, update t: 1 - beta1^t, 1 - beta2^t
  float epsilon = 0;                       ///< must be greater than 0, so that padding stays zero
  float trust = 1;                         ///< lars: factor on the tensor's gradient
};

/// One tensor with its gradient and optimizer state, all of equal size and in the same order.
/// state_names() lists the states of a rule in order. Unused spans are empty. The new value and
/// state are the same spans as the old ones, or do not overlap with them.
struct UpdateMemory {
  std::span<const float> value;
  std::span<const float> gradient;
  std::array<std::span<const float>, 2> state;
  std::span<float> new_value;
  std::array<std::span<float>, 2> new_state;
  std::span<Bf16> rounded = {};  ///< receives the new value rounded to bf16; empty: not requested
};

/// The scalars of one update of a tracked statistic (StatisticSpec).
struct Tracking {
  float momentum = 0;
  float contribution_weight = 1;  ///< 1 / number of logical shards
};

/// Element-wise arithmetic on parameters in a device's memory. Results do not depend on the number
/// of threads. The compute thread calls these functions. But a GradientSink may call update() and
/// average() on several threads at the same time, for different elements.
class Updater {
 public:
  virtual ~Updater() = default;
  /// Calls `work`. A device may delay the operations of update(), track() and average() until
  /// `work` returns, and combine them in few launches: first all updates and tracked statistics,
  /// then all averages. Until then, the caller must keep the tensors valid and unchanged.
  virtual void combine_updates(const std::function<void()>& work) { work(); }
  /// Computes the new value and state from the gradient, in one pass over memory. The bits are the
  /// same in place and out of place. If value, gradient and state of an element are zero (padding),
  /// the new ones are zero. `numbers` is in device memory too. Captured work (GraphCapture) reads
  /// `numbers` again in each run, with the values of another step.
  virtual void update(const UpdateForm& form, const UpdateParameters* numbers,
                      const UpdateMemory& memory) = 0;
  /// next = value + momentum * (contribution_weight * sum - value), for a tracked statistic. `sum`
  /// is the sum of the shards' contributions. `contribution_weight` is the weight of one
  /// contribution. `next` may be `value`.
  virtual void track(const Tracking& numbers, std::span<const float> value,
                     std::span<const float> sum, std::span<float> next) = 0;
  /// EMA: next = average + rate * (value - average). `rate` is in device memory, like the numbers
  /// of update(). `next` may be `average`.
  virtual void average(const float* rate, std::span<const float> average,
                       std::span<const float> value, std::span<float> next) = 0;
  /// Exchanges the values of `a` and `b`.
  virtual void swap(std::span<float> a, std::span<float> b) = 0;
  /// Sum of squares. The order of the additions depends only on the number of values.
  virtual double squared_norm(std::span<const float> values) = 0;
  /// sum = a + b; `sum` may be `a` or `b`.
  virtual void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) = 0;
};

/// The names of a rule's state tensors, in the order of UpdateMemory::state. `momentum`: whether
/// the momentum is greater than 0. sgd and rmsprop have a velocity only with momentum.
std::span<const char* const> state_names(UpdateRule rule, bool momentum);

}  // namespace poseidon::layers
