#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace poseidon::comm {

/// The digests of several workers after the same number of steps, by rank. A digest has a checksum
/// of each tensor.
using Digests = std::map<uint16_t, std::vector<int64_t>>;

/// A replica divergence.
struct Divergence {
  /// The workers with wrong values. They differ from the majority, or, if they are joiners, from
  /// the members' values that they copied. Empty: unknown.
  std::vector<uint16_t> who;
  std::string why;  ///< "\"conv1\" differs from that of 2 other workers after 8 steps"
};

/// Finds a replica divergence; nullopt: all replicas are equal. `tensor_name` names the tensor at
/// an index.
std::optional<Divergence> find_divergence(const Digests& digests, int64_t step,
                                          const std::function<std::string(size_t)>& tensor_name);
/// Finds replicas of joiners that differ from `all`, the digest of the members' values; nullopt:
/// none differs. A joiner's replica is a copy, so it has no vote.
std::optional<Divergence> find_false_copies(const Digests& copies, const std::vector<int64_t>& all,
                                            int64_t step,
                                            const std::function<std::string(size_t)>& tensor_name);

}  // namespace poseidon::comm
