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

/// The initial values that workers do not make from the seed. They come from a checkpoint, or from
/// a weights file, which may lack some of the tensors. Used by the main thread.
class FirstValues {
 public:
  /// `list` is from tensor_list(). `resumed` may be null, `weights` empty. Throws ConfigError,
  /// RunError.
  void make(const Json& list, const Checkpoint* resumed, const std::filesystem::path& weights,
            Log& log);
  bool are_made() const { return made_; }
  /// Sets the names of the training set's classes, as the workers report them.
  void take_classes(std::vector<std::string> classes) { classes_ = std::move(classes); }
  /// Returns the classes once, as soon as both the classes and the values are present. Throws
  /// ConfigError if the values were trained with other classes. `options` names the run or the
  /// weights file that the values come from.
  std::optional<std::vector<std::string>> checked_classes(const RunOptions& options, Log& log);
  /// Sends the values to a worker of this view, after a note that lists them.
  void send(uint16_t worker, uint32_t view, int64_t first_step, CoordinatorIo& io) const;
  /// All workers have the values.
  void clear() { values_.clear(); }

 private:
  std::vector<IndexedTensor> values_;
  bool made_ = false;
  bool all_fit_ = true;  ///< the weights file has a value for every weight
  std::optional<std::vector<std::string>> classes_;
};

}  // namespace poseidon::trainer
