#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "layers/update.h"
#include "net/net.h"
#include "net/tensor_memory.h"
#include "net/tensor_versions.h"

namespace poseidon::trainer {

/// Exponential moving averages (EMA) of a net's learned parameters and running statistics. Each
/// update of a value also updates its average: average += rate * (value - average). The rate is
/// max(1 - decay, 10 / (10 + n)) after n earlier updates. So an early average covers about the last
/// tenth of the steps so far, and the first average equals the first updated value. An average has
/// the memory order and the number of versions of its tensor. Used by the compute thread.
class Ema {
 public:
  /// Bytes of memory of the averages. The net need not have allocated its memory.
  static size_t bytes(net::Net& net, size_t kind);

  /// `net` and `updater` must outlive the averages. `kind` is the lowest memory kind
  /// (net::TensorMemory) that no other tensors use. The averages use one kind for each version,
  /// from `kind` on. Throws OutOfMemory.
  Ema(double decay, net::Net& net, layers::Updater& updater, size_t kind);

  /// Sets the rate of the following updates, which belong to `step`, counted from 0.
  void begin(int64_t step);
  /// Computes the next averages of elements of a parameter. The next values of these elements must
  /// be computed already.
  void update(size_t parameter, int64_t first, size_t count);
  void update(const net::Statistic& statistic);
  /// Makes the next averages of a layer the current ones. See Parameters::flip.
  void flip(int layer);
  /// Calls `use` while the net holds the averages in place of its values. Restores the values
  /// afterwards, also after an exception. Call it when no update is pending.
  void with_ema(const std::function<void()>& use);

  /// Name of the average in checkpoints, such as "conv1.weight.average".
  static std::string name_of(const std::string& followed) { return followed + kEnding; }
  static bool is_name(std::string_view name) { return name.ends_with(kEnding); }
  /// Name of the tensor whose average is called `name`; "" if `name` is not the name of an average.
  static std::string followed(const std::string& name) {
    return is_name(name) ? name.substr(0, name.size() - std::string_view(kEnding).size()) : "";
  }
  /// Average of a parameter, in packed order; empty if the parameter is not learned.
  std::span<float> of_parameter(size_t index) const { return parameters_[index].current(); }
  std::span<float> of_statistic(size_t index) const { return statistics_[index].current(); }

 private:
  static constexpr const char* kEnding = ".average";

  net::TensorVersions allocate(size_t floats);
  void swap();

  const double decay_;
  net::Net& net_;
  layers::Updater& updater_;
  std::vector<net::TensorMemory> memory_;  ///< by version
  std::vector<net::TensorVersions> parameters_, statistics_;
  Buffer rate_;  ///< device memory from which updates read the rate
};

}  // namespace poseidon::trainer
