#pragma once

#include <array>
#include <cstddef>

#include "importer/caffe_network.h"
#include "layers/layer.h"

namespace poseidon::importer {

using layers::Phase;

inline constexpr std::array kBothPhases{Phase::kTrain, Phase::kTest};

/// One value for each phase.
template <class Value>
class PerPhase {
 public:
  Value& operator[](Phase phase) { return values_[static_cast<size_t>(phase)]; }
  const Value& operator[](Phase phase) const { return values_[static_cast<size_t>(phase)]; }
  bool operator==(const PerPhase&) const = default;

 private:
  std::array<Value, kBothPhases.size()> values_{};
};

/// A set of phases.
class PhaseSet : public PerPhase<bool> {
 public:
  static PhaseSet of(Phase phase) {
    PhaseSet phases;
    phases[phase] = true;
    return phases;
  }
  static PhaseSet all() {
    PhaseSet phases;
    for (const Phase phase : kBothPhases) phases[phase] = true;
    return phases;
  }
  bool operator==(const PhaseSet&) const = default;
  bool both() const { return (*this)[Phase::kTrain] && (*this)[Phase::kTest]; }
  bool none() const { return !(*this)[Phase::kTrain] && !(*this)[Phase::kTest]; }
};

bool is_loss(const CaffeLayer& layer);

/// Determines the phases of each layer by Caffe's rules. Testing also uses these layers of TRAIN:
/// - all layers, if TEST has no layer other than data layers
/// - the data layers, if TEST has none
/// - the losses, if TEST has none
/// - in-place dropouts, which have no effect in testing
class LayerPhases {
 public:
  explicit LayerPhases(const CaffeNetwork& network);

  PhaseSet of(const CaffeLayer& layer) const;

 private:
  bool has_tests_ = false;  ///< whether TEST has a layer other than a data layer
  bool has_test_data_ = false, has_test_loss_ = false;
};

}  // namespace poseidon::importer
