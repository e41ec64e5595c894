#pragma once

#include <string>
#include <vector>

#include "net/net.h"
#include "trainer/step/named_tensor.h"

namespace poseidon::trainer {

/// The sums in flight as a checkpoint stores them: the sums of finished steps whose updates are not
/// made yet, in canonical order. Used by the compute thread.
class SumsInFlight {
 public:
  /// Stores the sums of at most `most` steps; memory is allocated on demand. `net` must outlive
  /// this object.
  SumsInFlight(net::Net& net, int64_t most);
  /// Bytes of the sums of one step.
  size_t bytes_of_step() const;

  /// Number of steps whose sums are stored.
  int64_t steps() const { return steps_; }
  bool holds(int64_t step) const { return step >= first_ && step < first_ + steps_; }
  /// Declares that the first `steps` lists of tensors() hold the sums of the steps from `first` on,
  /// counted from 0. The caller may set their values later.
  void begin_with(int64_t first, int64_t steps);
  /// Drops the sums of all steps before `step`.
  void drop_before(int64_t step);
  /// Counts the step after the last one as stored. First call keep() for all its layers.
  void add_step();
  /// Copies a layer's sums of `step` from the net, which holds them as gradients and as
  /// contributions to statistics. load() copies them back.
  void keep(int64_t step, int layer);
  void load(int64_t step, int layer) const;

  /// Returns `most` lists, one for each step that can be stored, oldest first, with names such as
  /// "sum.0.conv1.weight". The result is valid as long as this object.
  std::vector<std::vector<NamedTensor>> tensors();

 private:
  struct Tensor {
    int layer = 0;
    const net::Parameter* parameter = nullptr;  ///< null for a statistic
    const net::Statistic* statistic = nullptr;
    const std::string& name() const { return parameter ? parameter->name : statistic->name; }
    const Shape& shape() const { return parameter ? parameter->spec.shape : statistic->spec.shape; }
  };
  using StepSums = std::vector<std::vector<float>>;  ///< by tensor

  size_t index_of(int64_t step) const { return static_cast<size_t>(step - first_); }

  net::Net& net_;
  std::vector<Tensor> tensors_;
  std::vector<StepSums> steps_kept_;
  int64_t first_ = 0, steps_ = 0;
};

}  // namespace poseidon::trainer
