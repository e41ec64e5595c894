#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poseidon::comm {

/// The digests of all workers after the same number of steps: by rank, a checksum of each tensor.
using Digests = std::map<uint16_t, std::vector<int64_t>>;

/// Replicas that differ.
struct Drift {
  /// The workers that contradict others: more than half of all, or those whose copy they have.
  std::vector<uint16_t> who;
  std::string why;  ///< "\"conv1\" differs from that of 2 other workers after 8 steps"
};

/// Finds replicas that differ; none when all are equal. `tensor_name` names the tensor at an index.
std::optional<Drift> find_drift(const Digests& digests, int64_t step,
                                const std::function<std::string(size_t)>& tensor_name);
/// Finds copies of the values of `all` that differ from them; none when none does. A copy is no
/// vote on whose values are right.
std::optional<Drift> find_false_copies(const Digests& copies, const std::vector<int64_t>& all,
                                       int64_t step,
                                       const std::function<std::string(size_t)>& tensor_name);

}  // namespace poseidon::comm
