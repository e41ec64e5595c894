#include "importer/network_mapping.h"

#include <algorithm>
#include <map>
#include <set>

#include "core/counted.h"
#include "core/error.h"
#include "importer/layer_mapping.h"
#include "layers/registry.h"
#include "net/blocks.h"

namespace poseidon::importer {

namespace {

constexpr const char* kImagesName = "input";

/// What a value of Caffe's is here.
struct Source {
  enum class Kind : uint8_t { kNothing, kInput, kLabels, kLayer };
  Kind kind = Kind::kNothing;
  std::string layer;

  bool is_labels() const { return kind == Kind::kLabels; }
  /// As a network file has it.
  std::string name() const {
    if (is_labels()) return net::kLabelName;
    return kind == Kind::kInput ? kImagesName : layer;
  }
};

bool is_loss(const CaffeLayer& layer) {
  return std::ranges::find(loss_mappings(), layer.type, &LayerMappingEntry::type) !=
         loss_mappings().end();
}

bool exists_here(const std::string& type) { return layers::make_definition(type) != nullptr; }

/// Names in network files hold no dots and begin with no "$"; "input" is taken.
std::string usable_name(const CaffeLayer& layer) {
  std::string name = layer.name;
  std::ranges::replace(name, '.', '_');
  if (name.starts_with('$')) name[0] = '_';
  if (name == kImagesName) name += "_layer";
  return name;
}

/// Which layer has the parameters of a name.
class ParameterOwners {
 public:
  struct Owner {
    std::string layer;
    std::vector<CaffeParam> params;
  };

  /// The layer before this one that has the same names for its parameters; null where there is
  /// none, or they have no names. From then on they are this one's.
  const Owner* of(const std::vector<CaffeParam>& params, const CaffeLayer& layer,
                  const std::string& name, Remarks& remarks) {
    std::vector<std::string> names;
    for (const CaffeParam& param : params) names.push_back(param.name);
    if (std::ranges::all_of(names, &std::string::empty)) return nullptr;
    if (const auto found = owners_.find(names); found != owners_.end()) return &found->second;
    for (const std::string& each : names)
      if (!each.empty() && !taken_.insert(each).second)
        remarks.refuse(layer.place(), text(layer.shown(), " shares \"", each,
                                           "\": here layers share all of their parameters, in the ",
                                           "same order, or none"));
    owners_.emplace(std::move(names), Owner{name, params});
    return nullptr;
  }

 private:
  std::map<std::vector<std::string>, Owner> owners_;
  std::set<std::string> taken_;
};

/// Where the slices end but the last, which ends with its input.
std::vector<int64_t> ends_of_slices(const CaffeLayer& layer, size_t tops, Remarks& remarks) {
  const MessageReader from = layer.message.message("slice_param");
  expect_integer(from, "axis", 1, "slices are of the channels", remarks);
  expect_integer(from, "slice_dim", 1, "slices are of the channels", remarks);
  std::vector<int64_t> ends = from.integers("slice_point");
  if (ends.size() + 1 != tops)
    fail_at(from.place_of("slice_point"),
            text(layer.shown(), ": expected a \"slice_point\" between each two of the ",
                 counted(tops, "top"), ", got ", ends.size()));
  return ends;
}

class NetworkMapper {
 public:
  NetworkMapper(const CaffeNetwork& network, Remarks& remarks)
      : network_(network), graph_(network), remarks_(remarks), sources_(graph_.values().size()) {}

  std::vector<ImportedLayer> map() {
    remark_phases();
    if (!graph_.inputs().empty()) bind_inputs(graph_.inputs());
    for (const GraphLayer& layer : graph_.layers()) map_layer(layer);
    return std::move(layers_);
  }

 private:
  void remark_phases();
  void remark_phase(const CaffeLayer& layer);
  void bind_inputs(const std::vector<int>& values);
  void map_layer(const GraphLayer& layer);
  void map_split(const GraphLayer& layer);
  void map_slice(const GraphLayer& layer);
  void leave_out(const GraphLayer& layer, const std::string& why);
  void pass_through(const GraphLayer& layer);
  void map_known(const GraphLayer& layer, LayerMapping mapping);
  bool join_batch_norm(const GraphLayer& layer);
  ImportedLayer* batch_norm_before(const GraphLayer& layer);
  std::vector<std::string> inputs_of(const GraphLayer& layer, const std::string& type);
  std::vector<int> read_by(const GraphLayer& layer, const std::string& type) const;
  void multiply(std::vector<std::string>& inputs, const std::vector<double>& factors,
                const CaffeLayer& layer);
  void put_inputs(Json& json, const std::vector<std::string>& inputs) const;
  std::string new_name(const CaffeLayer& layer);
  std::string free_name(const std::string& stem);
  void add(const GraphLayer& layer, const MappedLayer& mapped);
  void put_parameters(Json& json, const CaffeLayer& layer, int parameters);
  Source& source(int value) { return sources_[static_cast<size_t>(value)]; }

  const CaffeNetwork& network_;
  const BlobGraph graph_;
  Remarks& remarks_;
  std::vector<Source> sources_;  ///< of each value of the graph
  std::vector<ImportedLayer> layers_;
  std::set<std::string> names_;
  ParameterOwners owners_;
  int inputs_bound_ = 0;
};

void NetworkMapper::remark_phases() {
  for (const CaffeLayer& layer : network_.layers()) remark_phase(layer);
}

void NetworkMapper::remark_phase(const CaffeLayer& layer) {
  const bool same_in_testing =
      layer.in_testing || layer.gives_data() || is_loss(layer) || layer.type == "Dropout";
  if (layer.in_training && !same_in_testing)
    remarks_.warn(layer.place(),
                  layer.shown() + " takes part in TRAIN only: here it does in tests too");
  if (layer.in_training || (layer.gives_data() && layer.in_testing)) return;
  layer.message.pass_over_all();
  if (layer.type == "Accuracy")
    remarks_.note(layer.place(), layer.shown() + " is left out: tests report the accuracy");
  else if (layer.in_testing)
    remarks_.warn(layer.place(), layer.shown() + " takes part in TEST only: it is left out");
  else
    remarks_.note(layer.place(), layer.shown() + " takes part in no phase, by its level or stage");
}

/// The first is the images, the next the labels; who reads more of them is told so.
void NetworkMapper::bind_inputs(const std::vector<int>& values) {
  for (const int value : values) {
    if (inputs_bound_ == 0) source(value).kind = Source::Kind::kInput;
    if (inputs_bound_ == 1) source(value).kind = Source::Kind::kLabels;
    ++inputs_bound_;
  }
}

void NetworkMapper::map_layer(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  if (caffe.gives_data()) return bind_inputs(layer.tops);
  if (caffe.type == "Split") return map_split(layer);
  if (caffe.type == "Slice") return map_slice(layer);
  if (caffe.type == "Accuracy") return leave_out(layer, "tests report the accuracy");
  if (caffe.type == "Silence" && !exists_here("silence"))
    return leave_out(layer, "what nobody reads is not printed here");
  if (caffe.type == "Scale" && join_batch_norm(layer)) return;
  const LayerMapping mapping = mapping_of(caffe.type);
  if (mapping != nullptr) return map_known(layer, mapping);
  const std::string reason = reason_for_none(caffe.type);
  remarks_.refuse(caffe.place(),
                  caffe.shown() + (reason.empty() ? ": the importer does not know this type"
                                                  : " has no equal here: " + reason));
  pass_through(layer);
}

void NetworkMapper::map_split(const GraphLayer& layer) {
  if (layer.bottoms.size() != 1)
    fail_at(layer.layer->place(),
            text(layer.layer->shown(), ": expected 1 bottom, got ", layer.bottoms.size()));
  for (const int top : layer.tops) source(top) = source(layer.bottoms[0]);
}

/// Each top is a layer of its own.
void NetworkMapper::map_slice(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  const std::vector<int64_t> ends = ends_of_slices(caffe, layer.tops.size(), remarks_);
  const std::vector<std::string> inputs = inputs_of(layer, "slice");
  int64_t begin = 0;
  for (size_t i = 0; i < layer.tops.size(); ++i) {
    Json json{{"name", free_name(text(usable_name(caffe), "_", i + 1))}};
    put_inputs(json, inputs);
    json["type"] = "slice";
    if (begin > 0) json["begin"] = begin;
    if (i < ends.size()) json["end"] = begin = ends[i];
    source(layer.tops[i]) = {.kind = Source::Kind::kLayer, .layer = json["name"]};
    layers_.push_back({.json = std::move(json), .source = &caffe});
  }
}

void NetworkMapper::leave_out(const GraphLayer& layer, const std::string& why) {
  remarks_.note(layer.layer->place(), layer.layer->shown() + " is left out: " + why);
  layer.layer->message.pass_over_all();
}

/// What reads a layer that is skipped reads that layer's first input.
void NetworkMapper::pass_through(const GraphLayer& layer) {
  layer.layer->message.pass_over_all();
  if (layer.bottoms.empty()) return;
  for (const int top : layer.tops) source(top) = source(layer.bottoms[0]);
}

void NetworkMapper::map_known(const GraphLayer& layer, LayerMapping mapping) {
  const CaffeLayer& caffe = *layer.layer;
  const MappedLayer mapped = mapping(caffe, remarks_);
  const auto type = mapped.keys["type"].get<std::string>();
  if (!exists_here(type)) {
    remarks_.refuse(caffe.place(),
                    text(caffe.shown(), " would be \"", type, "\", which this version has not"));
    return pass_through(layer);
  }
  add(layer, mapped);
}

/// Caffe's batch norm is two layers, of which the second one scales and shifts; ours is one.
bool NetworkMapper::join_batch_norm(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  ImportedLayer* const norm = batch_norm_before(layer);
  if (norm == nullptr) return false;
  const MappedLayer scale = mapping_of("Scale")(caffe, remarks_);
  const bool bias = scale.parameters == 2;
  std::vector<CaffeParam> params = params_of(caffe, scale.parameters, remarks_);
  if (!bias) params.push_back({.rate = 0});
  Json& json = norm->json;
  json.erase("learning_rate_multipliers");
  if (scale.keys.contains("scale_filler")) json["scale_filler"] = scale.keys["scale_filler"];
  if (scale.keys.contains("bias_filler")) json["shift_filler"] = scale.keys["bias_filler"];
  put_multipliers(json, params);
  norm->scale = &caffe;
  for (const int top : layer.tops) source(top) = source(layer.bottoms[0]);
  remarks_.note(caffe.place(), text(caffe.shown(), " is the scale and shift of the batch norm \"",
                                    norm->name(), "\""));
  return true;
}

/// Null unless a Scale follows it that alone reads its result.
ImportedLayer* NetworkMapper::batch_norm_before(const GraphLayer& layer) {
  if (layer.bottoms.size() != 1) return nullptr;
  const BlobValue& read = graph_.values()[static_cast<size_t>(layer.bottoms[0])];
  if (read.readers != 1 || read.producer < 0) return nullptr;
  const CaffeLayer* producer = graph_.layers()[static_cast<size_t>(read.producer)].layer;
  const auto found = std::ranges::find(layers_, producer, &ImportedLayer::source);
  const bool fits = producer->type == "BatchNorm" && found != layers_.end();
  return fits ? &*found : nullptr;
}

/// What it reads but for the labels of a loss, which are its last input and not named here.
std::vector<int> NetworkMapper::read_by(const GraphLayer& layer, const std::string& type) const {
  const CaffeLayer& caffe = *layer.layer;
  const int label = layers::make_definition(type)->label_input();
  if (label < 0) return layer.bottoms;
  const auto named = static_cast<size_t>(label);
  const std::string scores = label == 1 ? "scores" : counted(named, "input");
  if (layer.bottoms.size() <= named ||
      !sources_[static_cast<size_t>(layer.bottoms[named])].is_labels())
    fail_at(caffe.message.place_of("bottom"),
            text(caffe.shown(), ": expected ", scores,
                 " and the labels of the data as its inputs, ", "got others"));
  if (layer.bottoms.size() > named + 1)
    remarks_.refuse(caffe.message.place_of("bottom"), text(caffe.shown(), ": expected ", named + 1,
                                                           " inputs, got ", layer.bottoms.size()));
  return {layer.bottoms.begin(), layer.bottoms.begin() + label};
}

std::vector<std::string> NetworkMapper::inputs_of(const GraphLayer& layer,
                                                  const std::string& type) {
  std::vector<std::string> inputs;
  for (const int value : read_by(layer, type)) {
    const Source& from = source(value);
    const std::string& blob = graph_.values()[static_cast<size_t>(value)].name;
    if (from.kind == Source::Kind::kNothing)
      fail_at(
          layer.layer->message.place_of("bottom"),
          text(layer.layer->shown(), " reads \"", blob,
               "\", which has no equal here: expected the first top of a layer, or the images"));
    inputs.push_back(from.name());
  }
  return inputs;
}

/// Nothing where it is the layer before, which is what a network file means then.
void NetworkMapper::put_inputs(Json& json, const std::vector<std::string>& inputs) const {
  const std::string before = layers_.empty() ? kImagesName : layers_.back().name();
  if (inputs.size() > 1) json["inputs"] = inputs;
  if (inputs.size() == 1 && inputs[0] != before) json["input"] = inputs[0];
}

std::string NetworkMapper::new_name(const CaffeLayer& layer) {
  std::string name = free_name(usable_name(layer));
  if (name != layer.name)
    remarks_.note(layer.place(), text(layer.shown(), " is called \"", name, "\" here"));
  return name;
}

std::string NetworkMapper::free_name(const std::string& stem) {
  std::string name = stem;
  for (int i = 2; names_.contains(name); ++i) name = text(stem, "_", i);
  names_.insert(name);
  return name;
}

/// Puts a layer that multiplies before each input that has a factor.
void NetworkMapper::multiply(std::vector<std::string>& inputs, const std::vector<double>& factors,
                             const CaffeLayer& layer) {
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == 1) continue;
    if (!exists_here("power"))
      return remarks_.refuse(layer.place(),
                             text(layer.shown(), ": a sum here has no factors, got ", factors[i]));
    Json json{{"name", free_name(text(usable_name(layer), "_input_", i))}};
    put_inputs(json, {inputs[i]});
    json.update({{"type", "power"}, {"scale", plain_number(factors[i])}});
    inputs[i] = json["name"].get<std::string>();
    layers_.push_back({.json = std::move(json), .source = &layer});
  }
}

void NetworkMapper::add(const GraphLayer& layer, const MappedLayer& mapped) {
  const CaffeLayer& caffe = *layer.layer;
  if (!is_loss(caffe) && std::ranges::any_of(caffe.loss_weights, [](double w) { return w != 0; }))
    remarks_.refuse(caffe.message.place_of("loss_weight"),
                    caffe.shown() + ": only a loss has a \"loss_weight\" here");
  Json json{{"name", new_name(caffe)}};
  std::vector<std::string> inputs = inputs_of(layer, mapped.keys["type"]);
  multiply(inputs, mapped.input_factors, caffe);
  put_inputs(json, inputs);
  json.update(mapped.keys);
  if (mapped.parameters > 0) put_parameters(json, caffe, mapped.parameters);
  if (!layer.tops.empty())
    source(layer.tops[0]) = {.kind = Source::Kind::kLayer, .layer = json["name"]};
  layers_.push_back({.json = std::move(json), .source = &caffe});
}

void NetworkMapper::put_parameters(Json& json, const CaffeLayer& layer, int parameters) {
  std::vector<CaffeParam> params = params_of(layer, parameters, remarks_);
  const ParameterOwners::Owner* owner =
      owners_.of(params, layer, json["name"].get<std::string>(), remarks_);
  if (owner != nullptr) {
    json["shares"] = owner->layer;
    params = owner->params;
  }
  put_multipliers(json, params);
}

}  // namespace

ImportedNetwork map_network(const CaffeNetwork& network, SampleShape input, Remarks& remarks) {
  ImportedNetwork imported;
  imported.layers = NetworkMapper(network, remarks).map();
  Json& json = imported.json;
  json["name"] = network.name().empty() ? "network" : network.name();
  json["input"] = {{"channels", input[0]}, {"height", input[1]}, {"width", input[2]}};
  json["layers"] = Json::array();
  for (const ImportedLayer& layer : imported.layers) json["layers"].push_back(layer.json);
  return imported;
}

}  // namespace poseidon::importer
