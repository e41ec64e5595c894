#pragma once

#include <string>
#include <vector>

#include "net/net.h"
#include "trainer/step/named_tensor.h"

namespace poseidon::trainer {

/// The sums of steps that are done and whose updates are still to come, in canonical order: on
/// their way to a checkpoint or from one. Used by the compute thread.
class SumsInFlight {
 public:
  /// Room for `most` steps, taken when it is needed. `net` must outlive it.
  SumsInFlight(net::Net& net, int64_t most);
  /// What those of one step take of memory.
  size_t bytes_of_step() const;

  int64_t steps() const { return steps_; }
  bool holds(int64_t step) const { return step >= first_ && step < first_ + steps_; }
  /// Steps `first` to first + steps - 1, counted from 0, are what tensors() were set to.
  void begin_with(int64_t first, int64_t steps);
  void drop_before(int64_t step);
  /// The step after the last one, of which keep() then takes every layer.
  void add_step();
  /// A layer's sums as they are in the net's memory, in place of gradients and contributions.
  void keep(int64_t step, int layer);
  void load(int64_t step, int layer) const;

  /// One list for each step that there is room for, oldest first: "sum.0.conv1.weight". The result
  /// is valid as long as this object.
  std::vector<std::vector<NamedTensor>> tensors();

 private:
  struct Tensor {
    int layer = 0;
    const net::Parameter* parameter = nullptr;  ///< or else a statistic
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
