#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace poseidon::layers {

/// The optimizer rules, as PyTorch defines them: in sgd and nesterov the velocity gathers
/// gradients, v = m v + g, and the step is learning_rate * v. (Caffe gathers steps, v = m v + lr g:
/// the same until the learning rate changes; then ours takes effect at once.)
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

/// What is the same in all updates of a tensor.
struct UpdateForm {
  UpdateRule rule = UpdateRule::kSgd;
  bool l1 = false;  ///< whether UpdateNumbers::l1 is to be looked at
};

/// The numbers of one update of one tensor. `l2` and `l1` are added to the gradient (l2 * w + l1 *
/// sign(w)).
struct UpdateNumbers {
  float learning_rate = 0;
  float l2 = 0, l1 = 0;
  float shrinkage = 0;       ///< adamw: in place of l2, shrinks the value itself
  float gradient_scale = 1;  ///< clipping
  float momentum = 0;        ///< sgd, nesterov, lars, rmsprop
  float smoothing = 0;       ///< rmsprop, adadelta: of the squares
  float beta1 = 0, beta2 = 0;
  /// 1 - smoothing and so on, of the numbers in double precision: near 1, a float holds little of
  /// that difference.
  float one_minus_smoothing = 1, one_minus_beta1 = 1, one_minus_beta2 = 1;
  float correction1 = 1, correction2 = 1;  ///< adam, adamw: 1 - beta^t
  float epsilon = 0;                       ///< greater than 0: padding stays zero
  float trust = 1;                         ///< lars: the layer's own factor
};

/// One tensor with its gradient and optimizer state, all in the same order and of equal size. Which
/// states a rule has, in which order: state_names(). Unused ones are empty. The new value and state
/// are written over the old ones (the same spans) or beside them, never partly over them.
struct UpdateMemory {
  std::span<const float> value;
  std::span<const float> gradient;
  std::array<std::span<const float>, 2> state;
  std::span<float> new_value;
  std::array<std::span<float>, 2> new_state;
};

/// The numbers of one update of a tracked statistic (StatisticSpec).
struct Tracking {
  float momentum = 0;
  float share = 1;  ///< 1 / logical shards
};

/// Element-wise arithmetic on parameters in a device's memory. Results do not depend on the number
/// of threads. Called by the compute thread.
class Updater {
 public:
  virtual ~Updater() = default;
  /// New value and state from the gradient, in one pass over memory; the same bits over the old
  /// ones as beside them. Elements whose value, gradient and state are zero (padding) become zero.
  /// `numbers` are in the device's memory too: those of another step may come there.
  virtual void update(const UpdateForm& form, const UpdateNumbers* numbers,
                      const UpdateMemory& memory) = 0;
  /// next = value + momentum * (share * sum - value): a tracked statistic, from the sum of the
  /// shards' contributions and the share of one of them. `next` may be `value`.
  virtual void track(const Tracking& numbers, std::span<const float> value,
                     std::span<const float> sum, std::span<float> next) = 0;
  /// next = average + rate * (value - average). `rate` is in the device's memory, like the numbers
  /// of update(). `next` may be `average`.
  virtual void average(const float* rate, std::span<const float> average,
                       std::span<const float> value, std::span<float> next) = 0;
  /// Each takes the other's values.
  virtual void swap(std::span<float> a, std::span<float> b) = 0;
  /// Sum of squares, in an order of addition that is fixed by the number of values alone.
  virtual double squared_norm(std::span<const float> values) = 0;
  /// sum = a + b; `sum` may be `a` or `b`.
  virtual void add(std::span<const float> a, std::span<const float> b, std::span<float> sum) = 0;
};

/// The names of a rule's state tensors, in the order of UpdateMemory::state. `momentum` says
/// whether it is greater than 0: sgd and rmsprop keep a velocity only then.
std::span<const char* const> state_names(UpdateRule rule, bool momentum);

}  // namespace poseidon::layers
