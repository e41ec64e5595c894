#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/fields.h"
#include "core/file.h"
#include "core/json.h"
#include "core/log.h"
#include "trainer/step/named_tensor.h"

/// Checkpoints: step-<N>.safetensors holds the parameters and statistics, readable by other
/// programs. step-<N>.state holds the remaining state needed to continue. Byte layout:
/// docs/checkpoint-format.md.
namespace poseidon::trainer {

/// The state of a run except its tensors.
struct RunState {
  int64_t step = 0;          ///< steps done
  int64_t samples = 0;       ///< samples used so far: position in the endless sequence of samples
  double learning_rate = 0;  ///< of the next step, for information
  std::string config_hash;
  Json config;                    ///< result_settings(), from which config_hash is computed
  Json choices = Json::object();  ///< layout and algorithm by layer
  Json plan = Json::object();     ///< as in plan.json: how gradients were summed
  std::string dataset;            ///< fingerprint of the training set
  int64_t in_flight = 0;  ///< number of last steps whose sums in flight the checkpoint stores

  void describe(Fields& fields);
};

/// The tensors of a run, with their names in files.
struct RunTensors {
  /// Parameters in network order, then running statistics, then the EMA (Ema) of the learned
  /// parameters and of the statistics.
  std::vector<NamedTensor> weights;
  size_t parameters = 0;               ///< number of parameters among `weights`
  std::vector<NamedTensor> optimizer;  ///< optimizer state
  /// By step, oldest first: memory for the sums in flight. Only the first RunState::in_flight steps
  /// are valid.
  std::vector<std::vector<NamedTensor>> sums = {};
};

/// All tensors in the order of files and messages: weights, optimizer state, then the sums of the
/// first `in_flight` steps.
std::vector<const NamedTensor*> in_order(const RunTensors& tensors, int64_t in_flight);

/// CRC-32C of each tensor in canonical order, including the sums of `in_flight` steps.
std::vector<int64_t> tensor_digests(const RunTensors& tensors, int64_t in_flight);
/// CRC-32C of the tensors with the indices turn, turn + turns, turn + 2 turns, ... in the order of
/// in_order(), without sums.
std::vector<int64_t> rotating_tensor_digests(const RunTensors& tensors, int64_t turn,
                                             int64_t turns);

/// Conditions for writing a checkpoint.
struct WritingRules {
  const std::vector<int64_t>* agreed = nullptr;  ///< the workers' agreed digests; null: no check
  std::function<void()> may_write = [] {};       ///< throws RunError if writing is not allowed
};

/// Writes both files of step `state.step` into `folder`, which must exist. Writes temporary files,
/// and renames them only after the data read back match the tensors' digests. The state file is
/// renamed last, so a checkpoint with a state file is complete. Returns the path of the weights.
/// Throws RunError, and then leaves no new file that could be read as a checkpoint. Replaces an
/// earlier checkpoint of the same step. If the write fails, the earlier checkpoint may be lost.
/// Does not change checkpoints of other steps.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const RunState& state,
                                       const RunTensors& tensors, const WritingRules& rules = {});

/// Removes checkpoints of a run up to step `newest`; if `keep` is 0, removes none. The `keep`
/// newest of them stay, and the one with the best test accuracy in metrics.jsonl (the latest, if
/// several are equal). Checkpoints after `newest` also stay: the run wrote them before it reverted
/// to an earlier step. They are a reserve until the run writes them again.
void prune_checkpoints(const std::filesystem::path& run, int64_t keep, int64_t newest);

/// Returns the run directory of an argument of --resume. The argument is this directory, or a
/// checkpoint file in its folder "checkpoints".
std::filesystem::path run_of_checkpoint(const std::filesystem::path& run_or_file);
/// Whether metrics.jsonl of a run has the test result of the state after `step` steps.
bool has_test(const std::filesystem::path& run, int64_t step);

/// A checkpoint that was read and verified.
class Checkpoint {
 public:
  /// `state_file` is step-<N>.state; the weights are in step-<N>.safetensors in the same folder.
  /// Throws RunError, which names the incomplete, altered or missing file.
  explicit Checkpoint(const std::filesystem::path& state_file);

  const RunState& state() const { return state_; }
  std::filesystem::path weights_file() const {
    return std::filesystem::path(file_.path()).replace_extension(".safetensors");
  }

  /// Sets `tensors` to the values in the checkpoint. Throws ConfigError if names or shapes differ,
  /// because the job has another network or optimizer. `tensors` must have memory for the
  /// checkpoint's sums in flight.
  void restore(const RunTensors& tensors) const;

 private:
  struct Entry {
    std::string name;
    std::vector<int64_t> shape;
    uint64_t offset = 0;
  };
  Json read_header();
  void read_entries(const Json& header);
  void check_weights(const Json& header) const;
  const Entry* find(const std::string& name) const;
  [[noreturn]] void fail(const std::string& message) const;

  InputFile file_;
  RunState state_;
  uint64_t data_begin_ = 0;
  std::vector<Entry> entries_;
};

/// Opens the argument of --resume: a run directory or a folder of checkpoints (its newest
/// checkpoint), or the file of one checkpoint. If the checkpoint is damaged or has no state file,
/// logs a warning and opens the latest intact one before it. For a file that is not named step-<N>,
/// opens no other checkpoint. Throws ConfigError if there is no checkpoint, RunError if all are
/// damaged.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& run_or_file, Log& log);

/// Whether a run directory has any checkpoint, intact or not.
bool has_checkpoint(const std::filesystem::path& run);

/// SHA-256 of all parameters in network order, canonical, fp32 little-endian.
std::string weights_sha256(const RunTensors& tensors);
/// SHA-256 of all tensors of a checkpoint: parameters, running statistics, EMA, optimizer state,
/// and the sums of `in_flight` steps.
std::string state_sha256(const RunTensors& tensors, int64_t in_flight);

}  // namespace poseidon::trainer
