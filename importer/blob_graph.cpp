#include "importer/blob_graph.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "core/json.h"

namespace poseidon::importer {

namespace {

/// The newest value of each blob.
using CurrentValues = std::map<std::string, int>;

int value_of(const CurrentValues& current, const CaffeLayer& layer, const std::string& blob) {
  const auto found = current.find(blob);
  if (found != current.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : current) names.push_back(name);
  fail_at(layer.message.place_of("bottom"),
          text(layer.shown(), " reads \"", blob, "\": expected the top of a layer above it",
               suggestion(blob, names)));
}

void refuse_second_source(const CurrentValues& current, const CaffeLayer& layer,
                          const std::string& top) {
  if (!current.contains(top) || std::ranges::find(layer.bottoms, top) != layer.bottoms.end())
    return;
  fail_at(layer.message.place_of("top"),
          text(layer.shown(), " gives \"", top, "\", which a layer above it gives already"));
}

}  // namespace

BlobGraph::BlobGraph(const CaffeNetwork& network) {
  CurrentValues current;
  for (const CaffeInput& input : network.inputs()) {
    inputs_.push_back(add_value(input.name, -1));
    current[input.name] = inputs_.back();
  }
  for (const CaffeLayer& layer : network.layers()) {
    if (!layer.in_training) continue;
    GraphLayer resolved{.layer = &layer, .bottoms = {}, .tops = {}};
    for (const std::string& bottom : layer.bottoms) {
      resolved.bottoms.push_back(value_of(current, layer, bottom));
      ++values_[static_cast<size_t>(resolved.bottoms.back())].readers;
    }
    for (const std::string& top : layer.tops) {
      refuse_second_source(current, layer, top);
      resolved.tops.push_back(add_value(top, static_cast<int>(layers_.size())));
      current[top] = resolved.tops.back();
    }
    layers_.push_back(std::move(resolved));
  }
}

int BlobGraph::add_value(const std::string& name, int producer) {
  values_.push_back({.name = name, .producer = producer});
  return static_cast<int>(values_.size()) - 1;
}

}  // namespace poseidon::importer
