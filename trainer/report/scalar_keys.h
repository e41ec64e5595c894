#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/network.h"
#include "trainer/report/event_file.h"
#include "trainer/step/step_report.h"

namespace poseidon::trainer {

/// Keys for the scalars that the layers of a network report. The key "top1" has the accuracy from
/// the layer with the largest loss weight; if several layers have this weight, from the last one.
/// Other scalars, except losses, have such a key too. If several layers report scalars, each scalar
/// also has a key with its layer, such as "loss3/top1". The total loss is not a scalar of a layer,
/// so it has no key.
class ScalarKeys {
 public:
  ScalarKeys() = default;
  explicit ScalarKeys(const std::vector<net::ReportedScalar>& scalars);

  /// Number of scalars per sample.
  size_t count() const { return count_; }
  /// Each key with its value in `mean`. Keys without a value are omitted.
  std::vector<Scalar> named_values(const SampleSums& mean) const;
  /// The value of one key; nullopt if the key does not exist or `mean` has no value for it.
  std::optional<double> find(const std::string& key, const SampleSums& mean) const;

 private:
  struct Key {
    std::string name;
    size_t index = 0;  ///< index of the scalar
  };

  size_t count_ = 0;
  std::vector<Key> keys_;
};

}  // namespace poseidon::trainer
