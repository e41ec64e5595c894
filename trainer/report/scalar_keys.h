#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/network.h"
#include "trainer/report/event_file.h"
#include "trainer/step/step_report.h"

namespace poseidon::trainer {

/// By which keys a run tells of what the layers of its network report. "top1" is that of the layer
/// whose loss weighs most, the last of equals; where several layers report, each one's are told
/// under its name too: "loss3/top1". The total loss has no key here.
class ScalarKeys {
 public:
  ScalarKeys() = default;
  explicit ScalarKeys(const std::vector<net::ReportedScalar>& scalars);

  /// How many scalars there are of a sample.
  size_t count() const { return count_; }
  /// Each key with its value in `mean`; those that it has no value for are left out.
  std::vector<Scalar> told(const SampleSums& mean) const;
  /// The value under one key.
  std::optional<double> find(const std::string& key, const SampleSums& mean) const;

 private:
  struct Key {
    std::string name;
    size_t index = 0;  ///< of the scalar
  };

  size_t count_ = 0;
  std::vector<Key> keys_;
};

}  // namespace poseidon::trainer
