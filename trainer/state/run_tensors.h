#pragma once

#include "net/net.h"
#include "trainer/state/checkpoint.h"
#include "trainer/step/optimizer.h"
#include "trainer/step/sums_in_flight.h"

namespace poseidon::trainer {

/// The parameters and statistics of a net as files know them, always in the current version. `net`
/// must outlive the result.
RunTensors weights_of(net::Net& net);

/// The same with the optimizer's averages among the weights, and with its state.
RunTensors tensors_of(net::Net& net, Optimizer& optimizer);
/// The same with room for sums in flight, which must outlive the result too.
RunTensors tensors_of(net::Net& net, Optimizer& optimizer, SumsInFlight& sums);

/// Before a checkpoint of `step`: throws RunError that names the first weight or sum in flight that
/// holds a value that is not finite.
void refuse_non_finite(const RunTensors& tensors, int64_t in_flight, int64_t step);

/// What of a weights file did not go where.
struct MatchReport {
  size_t matched = 0;
  size_t averages = 0;                 ///< of those matched, where they were asked for
  size_t converted = 0;                ///< of those matched, from another type than F32
  std::string unwrapped;               ///< prefix that was removed from all names of the file
  std::vector<std::string> missing;    ///< of the network, not in the file
  std::vector<std::string> unused;     ///< of the file, not in the network
  std::vector<std::string> different;  ///< another shape: "ip2.weight: 10x500 in the file, 5x500"

  /// Whether the file has had a value for every weight of the network.
  bool all_fit() const { return missing.empty() && different.empty(); }
};

enum class WeightsTaken : uint8_t {
  kOwn,
  kAverages,  ///< that the file has of them, in place of their own
};

/// The file of weights that "--weights" names: a safetensors file, a run directory's newest
/// checkpoint, or what poseidon-import made in a folder. "" for "". Throws ConfigError.
std::filesystem::path weights_file_of(const std::filesystem::path& named, Log& log);

/// Sets every weight that the safetensors file has under the same name and with the same shape; the
/// others stay as they are, and so do averages. Throws ConfigError when none matches, RunError for
/// a damaged file.
MatchReport load_weights(const std::filesystem::path& file, const RunTensors& tensors,
                         WeightsTaken taken = WeightsTaken::kOwn);

/// Throws ConfigError when there is no such file, RunError when it is no safetensors file.
void check_weights_file(const std::filesystem::path& file);

/// Tells what did not match, or that all did.
void report_match(const std::filesystem::path& file, const MatchReport& match, Log& log);

}  // namespace poseidon::trainer
