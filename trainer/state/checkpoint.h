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

/// Checkpoints: step-<N>.safetensors with the parameters and statistics, for any reader, and
/// step-<N>.state with what else is needed to go on. The bytes: docs/checkpoint-format.md.
namespace poseidon::trainer {

/// Where a run stands, but for its tensors.
struct RunState {
  int64_t step = 0;          ///< steps done
  int64_t samples = 0;       ///< samples used so far: the cursor in the endless order of samples
  double learning_rate = 0;  ///< of the next step, for people
  std::string config_hash;
  Json config;                    ///< what the hash is of
  Json choices = Json::object();  ///< layout and algorithm by layer
  Json plan = Json::object();     ///< how gradients were summed, as in plan.json
  std::string dataset;            ///< fingerprint of the training set
  int64_t in_flight = 0;          ///< of the steps done, the last ones: their sums are carried

  void describe(Fields& fields);
};

/// The tensors of a run, as they are named in files.
struct RunTensors {
  /// Parameters in network order, statistics, then averages (Averages) in the order of both.
  std::vector<NamedTensor> weights;
  size_t parameters = 0;               ///< how many of them are parameters
  std::vector<NamedTensor> optimizer;  ///< optimizer state
  /// Room for sums in flight, oldest step first; the first RunState::in_flight of them count.
  std::vector<std::vector<NamedTensor>> sums = {};
};

/// All tensors in the order of files and messages: weights, optimizer state, then the sums of
/// `in_flight` steps.
std::vector<const NamedTensor*> in_order(const RunTensors& tensors, int64_t in_flight);

/// CRC-32C of each tensor in canonical order, the sums of `in_flight` steps included.
std::vector<int64_t> tensor_digests(const RunTensors& tensors, int64_t in_flight);
/// The same of every `turns`-th of them from number `turn` on, without sums.
std::vector<int64_t> tensor_digests_in_turn(const RunTensors& tensors, int64_t turn, int64_t turns);

/// What must hold for a checkpoint to be written.
struct WritingRules {
  const std::vector<int64_t>* agreed = nullptr;  ///< digests of the tensors that others have said
  std::function<void()> may_write = [] {};       ///< throws RunError when it may not be written
};

/// Writes both files of step `state.step` into `folder`, which must exist: the weights first, the
/// state last, so a checkpoint whose state is there is whole. They get their names when what is
/// read back from them has the digests of the tensors. Returns the path of the weights. Throws
/// RunError, and then leaves nothing behind that would be taken for a checkpoint; those of other
/// steps stay as they are.
std::filesystem::path write_checkpoint(const std::filesystem::path& folder, const RunState& state,
                                       const RunTensors& tensors, const WritingRules& rules = {});

/// Removes the checkpoints of a run up to step `newest` but the `keep` newest of them (0: all stay)
/// and the one with the best test accuracy by its metrics.jsonl, the later of equals. Later ones,
/// from before the run went back, stay: one may be damaged, and the run writes them again.
void prune_checkpoints(const std::filesystem::path& run, int64_t keep, int64_t newest);

/// The run directory that "--resume" names, itself or by a checkpoint in it.
std::filesystem::path run_of_checkpoint(const std::filesystem::path& run_or_file);
/// Whether the metrics.jsonl of a run has a test of the parameters after `step`.
bool has_test(const std::filesystem::path& run, int64_t step);

/// A checkpoint that was read back and found whole.
class Checkpoint {
 public:
  /// `state_file` is "....state"; the weights lie beside it. Throws RunError that names the file
  /// that is torn, altered, or missing.
  explicit Checkpoint(const std::filesystem::path& state_file);

  const RunState& state() const { return state_; }
  std::filesystem::path weights_file() const {
    return std::filesystem::path(file_.path()).replace_extension(".safetensors");
  }

  /// Puts all tensors back. Throws ConfigError when the run's tensors are not those of the
  /// checkpoint: another network or another optimizer. There must be room for its sums in flight.
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

/// Opens what "--resume" names: a run directory (its newest checkpoint), or one checkpoint's file.
/// One that is damaged is named in a warning and the one before it is taken. Throws ConfigError
/// when there is none at all, RunError when none is whole.
std::unique_ptr<Checkpoint> open_checkpoint(const std::filesystem::path& run_or_file, Log& log);

/// Whether a run directory has any checkpoint, whole or not.
bool has_checkpoint(const std::filesystem::path& run);

/// SHA-256 of all parameters in network order, canonical, fp32 little-endian.
std::string weights_sha256(const RunTensors& tensors);
/// The same of all that a checkpoint holds: parameters, running statistics, optimizer state, and
/// the sums of `in_flight` steps.
std::string state_sha256(const RunTensors& tensors, int64_t in_flight);

}  // namespace poseidon::trainer
