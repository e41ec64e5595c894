#include "comm/plan/scheme_costs.h"

#include <array>

#include "comm/plan/chunks.h"

namespace poseidon::comm {

namespace {

constexpr auto kBytesPerFloat = static_cast<double>(sizeof(float));

class LocalCosts final : public SchemeCosts {
 public:
  std::string fault_of(const LayerTraffic&) const override { return ""; }
  double formula_bytes(const LayerTraffic&, double, ClusterSize) const override { return 0; }
  LinkBytes link_bytes(const LayerTraffic&, const EvenTraffic&,
                       const EvenTraffic::NodeShare&) const override {
    return {};
  }
  WireFormat format(const LayerTraffic&, WireFormat) const override { return WireFormat::kFp32; }
  double rebuild_flop(const LayerTraffic&, double, ClusterSize) const override { return 0; }
};

class PsCosts final : public SchemeCosts {
 public:
  std::string fault_of(const LayerTraffic&) const override { return ""; }
  /// Of a linear layer's weight, or else of all tensors but statistics.
  double formula_bytes(const LayerTraffic& layer, double, ClusterSize cluster) const override {
    if (layer.linear) {
      const WeightShape weight = weight_of(layer);
      return kBytesPerFloat * ps_floats(weight.rows * weight.columns, cluster).both;
    }
    int64_t elements = 0;
    for (const TensorTraffic& tensor : layer.tensors)
      if (!tensor.statistic) elements += tensor.elements;
    return kBytesPerFloat * ps_floats(static_cast<double>(elements), cluster).both;
  }
  LinkBytes link_bytes(const LayerTraffic& layer, const EvenTraffic& traffic,
                       const EvenTraffic::NodeShare& node) const override {
    return traffic.bytes_by_servers(layer, node);
  }
  WireFormat format(const LayerTraffic& layer, WireFormat wire) const override {
    return wire_format_of(wire, layer.tensors[0]);
  }
  double rebuild_flop(const LayerTraffic&, double, ClusterSize) const override { return 0; }
};

class SfbCosts final : public SchemeCosts {
 public:
  std::string fault_of(const LayerTraffic& layer) const override {
    if (layer.factors) return "";
    if (layer.is_shared)
      return "several layers use its parameters (\"shares\"), and the sum of their gradients is "
             "not a product of factors";
    return "its gradient is not a product of factors that can be sent";
  }
  double formula_bytes(const LayerTraffic& layer, double batch,
                       ClusterSize cluster) const override {
    if (!layer.factors) return -1;
    const WeightShape factors{static_cast<double>(layer.factors->deltas),
                              static_cast<double>(layer.factors->activations)};
    return kBytesPerFloat * sfb_floats(factors, batch, cluster);
  }
  LinkBytes link_bytes(const LayerTraffic& layer, const EvenTraffic& traffic,
                       const EvenTraffic::NodeShare& node) const override {
    return traffic.bytes_by_factors(layer, node);
  }
  WireFormat format(const LayerTraffic&, WireFormat wire) const override {
    return wire == WireFormat::kInt8 ? WireFormat::kBf16 : wire;
  }
  double rebuild_flop(const LayerTraffic& layer, double batch, ClusterSize cluster) const override {
    return comm::rebuild_flop(static_cast<double>(layer.factors->multiply_adds), batch, cluster);
  }
};

}  // namespace

WeightShape weight_of(const LayerTraffic& layer) {
  return {static_cast<double>(layer.rows), static_cast<double>(layer.columns)};
}

const SchemeCosts& costs_of(Scheme scheme) {
  static const LocalCosts kLocal;
  static const PsCosts kPs;
  static const SfbCosts kSfb;
  static const std::array<const SchemeCosts*, kSchemes.size()> kCosts{&kLocal, &kPs, &kSfb};
  return *kCosts[static_cast<size_t>(scheme)];
}

}  // namespace poseidon::comm
