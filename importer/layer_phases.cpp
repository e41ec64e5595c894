#include "importer/layer_phases.h"

#include <algorithm>

#include "importer/layer_mapping.h"

namespace poseidon::importer {

bool is_loss(const CaffeLayer& layer) {
  return std::ranges::find(loss_mappings(), layer.type, &LayerMappingEntry::type) !=
         loss_mappings().end();
}

LayerPhases::LayerPhases(const CaffeNetwork& network) {
  for (const CaffeLayer& layer : network.layers()) {
    if (!layer.in_testing) continue;
    has_tests_ = has_tests_ || !layer.is_data_layer();
    has_test_data_ = has_test_data_ || layer.is_data_layer();
    has_test_loss_ = has_test_loss_ || is_loss(layer);
  }
}

PhaseSet LayerPhases::of(const CaffeLayer& layer) const {
  const bool is_needed = !has_tests_ || (layer.is_data_layer() && !has_test_data_) ||
                         (is_loss(layer) && !has_test_loss_) ||
                         (layer.type == "Dropout" && layer.tops == layer.bottoms);
  PhaseSet phases;
  phases[Phase::kTrain] = layer.in_training;
  phases[Phase::kTest] = layer.in_testing || (layer.in_training && is_needed);
  return phases;
}

}  // namespace poseidon::importer
