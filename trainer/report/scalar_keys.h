#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/network.h"
#include "trainer/report/event_file.h"
#include "trainer/step/step_report.h"

namespace poseidon::trainer {

/// Keys for the scalars that the layers of a network report. "top1" is the accuracy that the layer
/// with the largest loss weight reports; if several layers have this weight, the last one. If
/// several layers report scalars, each scalar also has a key with its layer: "loss3/top1". The
/// total loss has no key here.
class ScalarKeys {
 public:
  ScalarKeys() = default;
  explicit ScalarKeys(const std::vector<net::ReportedScalar>& scalars);

  /// Number of scalars per sample.
  size_t count() const { return count_; }
  /// Each key with its value in `mean`; keys without a value are left out.
  std::vector<Scalar> named_values(const SampleSums& mean) const;
  /// The value under one key.
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
