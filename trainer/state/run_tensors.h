#pragma once

#include "net/net.h"
#include "trainer/state/checkpoint.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/sums_in_flight.h"

namespace poseidon::trainer {

/// The parameters and statistics of a net under their names in files, always in the current
/// version. `net` must outlive the result.
RunTensors weights_of(net::Net& net);

/// As weights_of(), with the optimizer's EMA among the weights, and with the optimizer state.
RunTensors tensors_of(net::Net& net, Optimizer& optimizer);
/// As above, with memory for sums in flight. `net`, `optimizer` and `sums` must outlive the result.
RunTensors tensors_of(net::Net& net, Optimizer& optimizer, SumsInFlight& sums);

/// Throws RunError if a weight or a sum in flight has a non-finite value. The message names the
/// first such tensor. Call it before a checkpoint of `step` is written.
void refuse_non_finite(const RunTensors& tensors, int64_t in_flight, int64_t step);

/// Result of loading a weights file.
struct MatchReport {
  size_t matched = 0;
  size_t averages = 0;                 ///< matched tensors that were set to their EMA
  size_t converted = 0;                ///< matched tensors of another type than F32
  std::string unwrapped;               ///< prefix that was removed from all names in the file
  std::vector<std::string> missing;    ///< in the network, not in the file
  std::vector<std::string> unused;     ///< in the file, not in the network
  std::vector<std::string> different;  ///< "ip2.weight (10x500 in the file, 5x500 in the network)"

  /// Whether the file has a value for every weight of the network.
  bool all_fit() const { return missing.empty() && different.empty(); }
};

enum class WeightsTaken : uint8_t {
  kOwn,       ///< each tensor itself
  kAverages,  ///< the EMA of each tensor, or the tensor itself if the file has no EMA of it
};

/// The weights file for the argument of --weights: a safetensors file, a run directory (its newest
/// checkpoint), or a folder from poseidon-import. Returns "" for "". Throws ConfigError.
std::filesystem::path weights_file_of(const std::filesystem::path& named, Log& log);

/// Sets every weight for which the safetensors file has a tensor with the same name and shape, or
/// its EMA (`taken`). If no name matches, first removes the prefixes of PyTorch's wrappers from the
/// names in the file. Does not change other weights or the EMA of the run. Throws ConfigError if no
/// tensor matches, a matching tensor is not F32, F16 or BF16, or the file is not a valid
/// safetensors file.
MatchReport load_weights(const std::filesystem::path& file, const RunTensors& tensors,
                         WeightsTaken taken = WeightsTaken::kOwn);

/// Throws ConfigError if the file does not exist or is not a valid safetensors file.
void check_weights_file(const std::filesystem::path& file);

/// Logs the number of loaded tensors, and warns of tensors that did not match.
void report_match(const std::filesystem::path& file, const MatchReport& match, Log& log);

}  // namespace poseidon::trainer
