#pragma once

#include <array>
#include <cstddef>

#include "importer/caffe_network.h"
#include "layers/layer.h"

namespace poseidon::importer {

using layers::Phase;

inline constexpr std::array kBothPhases{Phase::kTrain, Phase::kTest};

/// What there is of something in each phase.
template <class Value>
class PerPhase {
 public:
  Value& operator[](Phase phase) { return values_[static_cast<size_t>(phase)]; }
  const Value& operator[](Phase phase) const { return values_[static_cast<size_t>(phase)]; }
  bool operator==(const PerPhase&) const = default;

 private:
  std::array<Value, kBothPhases.size()> values_{};
};

/// Those that something takes part in.
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

/// In which phases layers take part here. That is as Caffe has it, but that tests are not without
/// what they need: where no layer is for TEST, or no data, or no loss, those of TRAIN are. And a
/// dropout in place does nothing in tests, so they may have it.
class LayerPhases {
 public:
  explicit LayerPhases(const CaffeNetwork& network);

  PhaseSet of(const CaffeLayer& layer) const;

 private:
  bool has_tests_ = false;  ///< beside data
  bool has_test_data_ = false, has_test_loss_ = false;
};

}  // namespace poseidon::importer
