#include "comm/membership/divergence.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

namespace {

/// The lowest rank that has the most common values, and the number of workers with these values.
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

std::optional<Divergence> find_divergence(const Digests& digests, int64_t step,
                                          const std::function<std::string(size_t)>& tensor_name) {
  const auto [usual, votes] = most_common(digests);
  const std::vector<int64_t>& expected = digests.at(usual);
  const auto odd = std::find_if(digests.begin(), digests.end(),
                                [&](const auto& each) { return each.second != expected; });
  if (odd == digests.end()) return std::nullopt;
  const std::string what = what_differs(odd->second, expected, tensor_name);
  if (2 * votes > digests.size()) {
    Divergence divergence{.who = {},
                          .why = text(what, " differs from that of ", votes,
                                      " other workers after ", step, " steps")};
    for (const auto& [rank, values] : digests)
      if (values != expected) divergence.who.push_back(rank);
    return divergence;
  }
  const auto [first, second] = std::minmax(odd->first, usual);
  return Divergence{.who = {},
                    .why = text(what, " of worker ", first, " differs from that of worker ", second,
                                " after ", step, " steps")};
}

std::optional<Divergence> find_false_copies(const Digests& copies, const std::vector<int64_t>& all,
                                            int64_t step,
                                            const std::function<std::string(size_t)>& tensor_name) {
  Divergence divergence;
  for (const auto& [rank, values] : copies) {
    if (values == all) continue;
    if (divergence.who.empty())
      divergence.why =
          text(what_differs(values, all, tensor_name),
               " of the joiner differs from that of the members after ", step, " steps");
    divergence.who.push_back(rank);
  }
  return divergence.who.empty() ? std::nullopt : std::optional(divergence);
}

}  // namespace poseidon::comm
