#include "importer/blob_graph.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/json.h"

namespace poseidon::importer {

namespace {

using Values = std::map<std::string, int>;

/// Suffix for messages. Only TEST is named, because users assume the phase TRAIN.
const char* in_phase(Phase phase) { return phase == Phase::kTest ? " in phase TEST" : ""; }

int value_of(const Values& current, const CaffeLayer& layer, const std::string& blob, Phase phase) {
  const auto found = current.find(blob);
  if (found != current.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : current) names.push_back(name);
  fail_at(layer.message.place_of("bottom"),
          text(layer.shown(), " reads \"", blob, "\": expected the top of a layer above it",
               in_phase(phase), suggestion(blob, names)));
}

void refuse_second_source(const Values& current, const CaffeLayer& layer, const std::string& top,
                          Phase phase) {
  if (!current.contains(top) || std::ranges::find(layer.bottoms, top) != layer.bottoms.end())
    return;
  fail_at(layer.message.place_of("top"),
          text(layer.shown(), " writes \"", top, "\", which a layer above it writes already",
               in_phase(phase)));
}

bool are_there(const std::vector<std::string>& blobs, const Values& current) {
  return std::ranges::all_of(blobs,
                             [&](const std::string& blob) { return current.contains(blob); });
}

}  // namespace

BlobGraph::BlobGraph(const CaffeNetwork& network) {
  for (const CaffeInput& input : network.inputs()) {
    inputs_.push_back(add_value(input.name, -1));
    for (const Phase phase : kBothPhases) current_[phase][input.name] = inputs_.back();
  }
  const LayerPhases phases(network);
  for (const CaffeLayer& layer : network.layers()) add_layer(layer, phases.of(layer));
}

void BlobGraph::add_layer(const CaffeLayer& layer, PhaseSet phases) {
  // A layer for TRAIN runs in testing too only if its bottoms exist in TEST.
  if (!layer.in_testing && !are_there(layer.bottoms, current_[Phase::kTest]))
    phases[Phase::kTest] = false;
  if (phases.none() || add_to_twin(layer, phases)) return;
  GraphLayer resolved{.layer = &layer, .phases = phases, .bottoms = {}, .tops = {}};
  for (const Phase phase : kBothPhases)
    if (phases[phase]) read(resolved, phase);
  for (const std::string& top : layer.tops) {
    for (const Phase phase : kBothPhases)
      if (phases[phase]) refuse_second_source(current_[phase], layer, top, phase);
    resolved.tops.push_back(add_value(top, static_cast<int>(layers_.size())));
    for (const Phase phase : kBothPhases)
      if (phases[phase]) current_[phase][top] = resolved.tops.back();
  }
  layers_.push_back(std::move(resolved));
}

void BlobGraph::read(GraphLayer& layer, Phase phase) {
  const auto reads = [&](Phase each, int value) {
    return std::ranges::find(layer.bottoms[each], value) != layer.bottoms[each].end();
  };
  for (const std::string& bottom : layer.layer->bottoms) {
    const int value = value_of(current_[phase], *layer.layer, bottom, phase);
    if (!reads(Phase::kTrain, value) && !reads(Phase::kTest, value))
      ++values_[static_cast<size_t>(value)].readers;
    layer.bottoms[phase].push_back(value);
  }
}

/// Merges a batch norm of one phase with an earlier batch norm of the other phase that has the same
/// name, bottoms and tops. Returns false if there is none, or if a bottom of this phase does not
/// exist before the earlier batch norm.
bool BlobGraph::add_to_twin(const CaffeLayer& layer, PhaseSet phases) {
  if (layer.type != "BatchNorm" || phases.both()) return false;
  const Phase phase = phases[Phase::kTrain] ? Phase::kTrain : Phase::kTest;
  const auto twin = std::ranges::find_if(layers_, [&](const GraphLayer& other) {
    return !other.phases[phase] && other.layer->type == layer.type &&
           other.layer->name == layer.name && other.layer->bottoms == layer.bottoms &&
           other.layer->tops == layer.tops;
  });
  if (twin == layers_.end() || twin->tops.empty() || !are_there(layer.bottoms, current_[phase]))
    return false;
  const auto is_above = [&](const std::string& blob) {
    return current_[phase].at(blob) < twin->tops[0];
  };
  if (!std::ranges::all_of(layer.bottoms, is_above)) return false;
  read(*twin, phase);
  twin->phases[phase] = true;
  for (size_t i = 0; i < layer.tops.size(); ++i) current_[phase][layer.tops[i]] = twin->tops[i];
  twins_.push_back(&layer);
  return true;
}

int BlobGraph::add_value(const std::string& name, int producer) {
  values_.push_back({.name = name, .producer = producer});
  return static_cast<int>(values_.size()) - 1;
}

}  // namespace poseidon::importer
