#pragma once

#include <string>

#include "comm/plan/cost_model.h"
#include "comm/plan/plan.h"
#include "comm/plan/traffic.h"

/// The costs of the schemes, and the layers that can use them, for the choice of a layer's scheme.
namespace poseidon::comm {

/// The weight of a linear layer.
WeightShape weight_of(const LayerTraffic& layer);

class SchemeCosts {
 public:
  virtual ~SchemeCosts() = default;

  /// Why the layer cannot use the scheme, for a message; "" if it can.
  virtual std::string fault_of(const LayerTraffic& layer) const = 0;
  /// Bytes per node, sent plus received, in fp32, by the formulas of the Poseidon paper
  /// (comm/plan/cost_model.h). `batch` is per worker. -1: the formula does not apply to the layer.
  virtual double formula_bytes(const LayerTraffic& layer, double batch,
                               ClusterSize cluster) const = 0;
  /// The bytes of a layer on one node, if all servers hold the same amount.
  virtual LinkBytes link_bytes(const LayerTraffic& layer, const EvenTraffic& traffic,
                               const EvenTraffic::NodeShare& node) const = 0;
  /// The wire format of the layer's weight, or of its factors.
  virtual WireFormat format(const LayerTraffic& layer, WireFormat wire) const = 0;
  /// Floating-point operations of each worker to compute the gradient from what it receives.
  virtual double rebuild_flop(const LayerTraffic& layer, double batch,
                              ClusterSize cluster) const = 0;
};

const SchemeCosts& costs_of(Scheme scheme);

}  // namespace poseidon::comm
