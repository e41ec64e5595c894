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

/// A tensor's values, by its index in a tensor_list().
struct IndexedTensor {
  uint32_t index = 0;
  comm::Payload values;
};

/// The values that workers do not make themselves from the seed: those of a checkpoint, or of a
/// weights file for the tensors that it has. Used by the main thread.
class FirstValues {
 public:
  /// `list` as tensor_list() made it; `resumed` may be null, `weights` empty. Throws ConfigError,
  /// RunError.
  void make(const Json& list, const Checkpoint* resumed, const std::filesystem::path& weights,
            Log& log);
  bool are_made() const { return made_; }
  /// The classes of the training set, by the names that workers have for them.
  void take_classes(std::vector<std::string> classes) { classes_ = std::move(classes); }
  /// The classes once they and the values are there, and then not again. Throws ConfigError if they
  /// are not those that the values were trained for; `options` names the run of these.
  std::optional<std::vector<std::string>> checked_classes(const RunOptions& options, Log& log);
  /// Sends them to a worker of this view, with a note of which they are.
  void send(uint16_t worker, uint32_t view, int64_t first_step, CoordinatorIo& io) const;
  /// All workers have them.
  void clear() { values_.clear(); }

 private:
  std::vector<IndexedTensor> values_;
  bool made_ = false;
  bool all_fit_ = true;  ///< a weights file has had a value for every weight
  std::optional<std::vector<std::string>> classes_;
};

}  // namespace poseidon::trainer
