#include "trainer/report/scalar_keys.h"

#include <algorithm>
#include <map>

namespace poseidon::trainer {

ScalarKeys::ScalarKeys(const std::vector<net::ReportedScalar>& scalars) : count_(scalars.size()) {
  std::map<std::string, size_t> main;
  for (size_t i = 0; i < scalars.size(); ++i) {
    if (scalars[i].is_loss) continue;
    const auto [found, is_first] = main.try_emplace(scalars[i].name, i);
    if (!is_first && scalars[i].weight >= scalars[found->second].weight) found->second = i;
  }
  for (const auto& [name, index] : main) keys_.push_back({name, index});
  if (count_ == 0 || scalars.front().node == scalars.back().node) return;
  for (size_t i = 0; i < count_; ++i)
    keys_.push_back({scalars[i].layer + "/" + scalars[i].name, i});
}

std::vector<Scalar> ScalarKeys::named_values(const SampleSums& mean) const {
  std::vector<Scalar> out;
  for (const Key& key : keys_)
    if (key.index < mean.scalars.size()) out.emplace_back(key.name, mean.scalars[key.index]);
  return out;
}

std::optional<double> ScalarKeys::find(const std::string& key, const SampleSums& mean) const {
  const auto found = std::ranges::find(keys_, key, &Key::name);
  if (found == keys_.end() || found->index >= mean.scalars.size()) return std::nullopt;
  return mean.scalars[found->index];
}

}  // namespace poseidon::trainer
