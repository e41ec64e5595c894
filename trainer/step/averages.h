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

/// Exponential moving averages of a net's learned parameters and of its statistics, which follow
/// each update of them: average += rate * (value - average). The rate is 1 - decay, but early on 10
/// / (10 + updates made), so that the average is about the last tenth of a short training, and its
/// first value is that of the first update. In the memory order of what they follow, in as many
/// versions as the net has. Used by the compute thread.
class Averages {
 public:
  /// What they take of memory, bytes. The net need not have taken any.
  static size_t bytes(net::Net& net, size_t kind);

  /// `net` and `updater` must outlive them; `kind` is the first that net::TensorMemory does not
  /// know yet. Throws OutOfMemory.
  Averages(double decay, net::Net& net, layers::Updater& updater, size_t kind);

  /// From now on updates are those of `step`, counted from 0.
  void begin(int64_t step);
  /// The next averages of elements of a parameter, whose next values have been made.
  void follow(size_t parameter, int64_t first, size_t count);
  void follow(const net::Statistic& statistic);
  /// As Parameters::flip.
  void flip(int layer);
  /// Calls `use` while the net has the averages for its values; then it has its own again, whatever
  /// is thrown. All updates must be made.
  void lend(const std::function<void()>& use);

  /// Its name in checkpoints, "conv1.weight.average".
  static std::string name_of(const std::string& followed) { return followed + kEnding; }
  static bool is_name(std::string_view name) { return name.ends_with(kEnding); }
  /// The tensor whose average has the name; "" for one of no average.
  static std::string followed(const std::string& name) {
    return is_name(name) ? name.substr(0, name.size() - std::string_view(kEnding).size()) : "";
  }
  /// Of a parameter, packed; empty where it is not learned.
  std::span<float> of_parameter(size_t index) const { return parameters_[index].current(); }
  std::span<float> of_statistic(size_t index) const { return statistics_[index].current(); }

 private:
  static constexpr const char* kEnding = ".average";

  net::TensorVersions take(size_t floats);
  void swap();

  const double decay_;
  net::Net& net_;
  layers::Updater& updater_;
  std::vector<net::TensorMemory> memory_;  ///< by version
  std::vector<net::TensorVersions> parameters_, statistics_;
  Buffer rate_;  ///< where updates read it
};

}  // namespace poseidon::trainer
