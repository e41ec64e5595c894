#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/wire/transport.h"
#include "core/json.h"
#include "core/log.h"
#include "trainer/job/run_options.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

class CoordinatorIo;

/// Values of a tensor, with its index in a tensor_list().
struct IndexedTensor {
  uint32_t index = 0;
  comm::Payload values;
};

/// The initial values that workers receive from the coordinator. They come from a checkpoint or
/// from a weights file. Workers initialize the tensors that are not in the file from the seed. Used
/// by the main thread.
class FirstValues {
 public:
  /// Copies the values from the checkpoint `resumed`, or from the file `weights` if `resumed` is
  /// null. There are no values if `weights` is also empty. `list` is from tensor_list(). Throws
  /// ConfigError, RunError.
  void make(const Json& list, const Checkpoint* resumed, const std::filesystem::path& weights,
            Log& log);
  bool are_made() const { return made_; }
  /// Sets the class names of the training set, as worker 0 reports them.
  void take_classes(std::vector<std::string> classes) { classes_ = std::move(classes); }
  /// Returns the class names once, as soon as take_classes() and make() have been called; before
  /// and after, nullopt. Throws ConfigError if the values were trained with other classes. Only
  /// logs this if the weights file does not fit all weights. `options` names the run or the weights
  /// file of the values.
  std::optional<std::vector<std::string>> checked_classes(const RunOptions& options, Log& log);
  /// Sends a ValuesNote, which lists the tensors, and then the values to a worker of this view.
  /// Sends nothing if the view has ended.
  void send(uint16_t worker, uint32_t view, int64_t first_step, CoordinatorIo& io) const;
  /// Frees the memory of the values. Call it when all workers have them.
  void clear() { values_.clear(); }

 private:
  std::vector<IndexedTensor> values_;
  bool made_ = false;
  bool all_fit_ = true;  ///< false: the weights file lacks values for some weights
  std::optional<std::vector<std::string>> classes_;
};

}  // namespace poseidon::trainer
