#include "comm/membership/drift.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

namespace {

/// The rank whose values most workers have (of equals, the lowest), and the number of these
/// workers.
std::pair<uint16_t, size_t> most_common(const Digests& digests) {
  std::map<std::vector<int64_t>, size_t> votes;
  for (const auto& [rank, values] : digests) ++votes[values];
  std::pair<uint16_t, size_t> best{0, 0};
  for (const auto& [rank, values] : digests)
    if (votes[values] > best.second) best = {rank, votes[values]};
  return best;
}

std::string what_differs(const std::vector<int64_t>& a, const std::vector<int64_t>& b,
                         const std::function<std::string(size_t)>& tensor_name) {
  const auto [in_a, in_b] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (in_a == a.end() || in_b == b.end()) return "the number of tensors";
  return "\"" + tensor_name(static_cast<size_t>(in_a - a.begin())) + "\"";
}

}  // namespace

std::optional<Drift> find_drift(const Digests& digests, int64_t step,
                                const std::function<std::string(size_t)>& tensor_name) {
  const auto [usual, votes] = most_common(digests);
  const std::vector<int64_t>& expected = digests.at(usual);
  const auto odd = std::find_if(digests.begin(), digests.end(),
                                [&](const auto& each) { return each.second != expected; });
  if (odd == digests.end()) return std::nullopt;
  const std::string what = what_differs(odd->second, expected, tensor_name);
  if (2 * votes > digests.size()) {
    Drift drift{.who = {},
                .why = text(what, " differs from that of ", votes, " other workers after ", step,
                            " steps")};
    for (const auto& [rank, values] : digests)
      if (values != expected) drift.who.push_back(rank);
    return drift;
  }
  const auto [first, second] = std::minmax(odd->first, usual);
  return Drift{.who = {},
               .why = text(what, " of worker ", first, " differs from that of worker ", second,
                           " after ", step, " steps")};
}

std::optional<Drift> find_false_copies(const Digests& copies, const std::vector<int64_t>& all,
                                       int64_t step,
                                       const std::function<std::string(size_t)>& tensor_name) {
  Drift drift;
  for (const auto& [rank, values] : copies) {
    if (values == all) continue;
    if (drift.who.empty())
      drift.why = text(what_differs(values, all, tensor_name),
                       " of the joiner differs from that of the members after ", step, " steps");
    drift.who.push_back(rank);
  }
  return drift.who.empty() ? std::nullopt : std::optional(drift);
}

}  // namespace poseidon::comm
