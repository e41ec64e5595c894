#include "importer/network_mapping.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/counted.h"
#include "core/error.h"
#include "importer/auxiliary_inputs.h"
#include "importer/layer_mapping.h"
#include "layers/registry.h"
#include "net/blocks.h"

namespace poseidon::importer {

namespace {

/// The Poseidon layer or input that corresponds to a Caffe value.
struct Source {
  enum class Kind : uint8_t { kNothing, kInput, kLabels, kExtra, kShapeless, kLayer };
  Kind kind = Kind::kNothing;
  std::string layer = {};
  size_t extra = 0;  ///< index of an auxiliary input

  bool is_labels() const { return kind == Kind::kLabels; }
  /// Returns the name in a network file. Not for auxiliary inputs (AuxiliaryInputs::use).
  std::string name() const {
    if (is_labels()) return net::kLabelName;
    return kind == Kind::kInput ? net::kInputName : layer;
  }
};

bool exists_here(const std::string& type) { return layers::make_definition(type) != nullptr; }

/// Converts a Caffe layer name to a valid name in a network file: without dots, without "$" at the
/// start, not "input" or "label".
std::string usable_name(const CaffeLayer& layer) {
  std::string name = layer.name;
  std::ranges::replace(name, '.', '_');
  if (name.starts_with('$')) name[0] = '_';
  if (name == net::kInputName || name == net::kLabelName) name += "_layer";
  return name;
}

/// Maps the parameter names of a layer to the layer that owns the parameters.
class ParameterOwners {
 public:
  struct Owner {
    std::string layer;
    std::vector<CaffeParam> params;
  };

  /// Returns the owner: the earlier layer with the same parameter names. If there is none, `layer`
  /// becomes the owner and the result is null. If no parameter has a name, the result is null too.
  /// Refuses a layer that shares only some of its parameters.
  const Owner* of(const std::vector<CaffeParam>& params, const CaffeLayer& layer,
                  const std::string& name, Remarks& remarks) {
    std::vector<std::string> names;
    for (const CaffeParam& param : params) names.push_back(param.name);
    if (std::ranges::all_of(names, &std::string::empty)) return nullptr;
    if (const auto found = owners_.find(names); found != owners_.end()) return &found->second;
    for (const std::string& each : names)
      if (!each.empty() && !taken_.insert(each).second)
        remarks.refuse(layer.place(), text(layer.shown(), " shares \"", each,
                                           "\": Poseidon's layers share all parameters, in the ",
                                           "same order, or none"));
    owners_.emplace(std::move(names), Owner{name, params});
    return nullptr;
  }

 private:
  std::map<std::vector<std::string>, Owner> owners_;
  std::set<std::string> taken_;
};

/// Returns the end of each slice except the last one, in channels. The last slice ends at the last
/// channel.
std::vector<int64_t> ends_of_slices(const CaffeLayer& layer, size_t tops, Remarks& remarks) {
  const MessageReader from = layer.message.message("slice_param");
  expect_integer(from, "axis", 1, "Poseidon slices along the channels", remarks);
  expect_integer(from, "slice_dim", 1, "Poseidon slices along the channels", remarks);
  std::vector<int64_t> ends = from.integers("slice_point");
  if (ends.size() + 1 != tops)
    fail_at(from.place_of("slice_point"),
            text(layer.shown(), ": expected a \"slice_point\" between each two of the ",
                 counted(tops, "top"), ", got ", ends.size()));
  return ends;
}

/// The names of a layer's inputs, by phase.
using Inputs = PerPhase<std::vector<std::string>>;

/// Returns true if Poseidon's accuracy layer computes the same as this layer. Poseidon's layer has
/// one output for all classes, ignores no label, and reads classes from axis 1.
bool has_equal_accuracy(const CaffeLayer& layer) {
  const MessageReader from = layer.message.message("accuracy_param");
  return layer.tops.size() == 1 && !from.has("ignore_label") &&
         from.integer("axis").value_or(1) == 1;
}

void remark_phases(const CaffeNetwork& network, const BlobGraph& graph, Remarks& remarks) {
  for (const CaffeLayer* twin : graph.twins()) {
    twin->message.mark_all_as_read();
    remarks.note(twin->place(),
                 twin->shown() + " is merged with the same layer of the other phase");
  }
  for (const CaffeLayer& layer : network.layers()) {
    if (layer.in_training || layer.in_testing) continue;
    layer.message.mark_all_as_read();
    remarks.note(layer.place(), layer.shown() + " is in no phase, because of its level or stage");
  }
}

class NetworkMapper {
 public:
  /// map() adds the auxiliary inputs of the network to `auxiliary_inputs`, and marks those that a
  /// layer reads.
  NetworkMapper(const CaffeNetwork& network, Remarks& remarks, AuxiliaryInputs& auxiliary_inputs)
      : network_(network),
        graph_(network),
        remarks_(remarks),
        sources_(graph_.values().size()),
        auxiliary_inputs_(auxiliary_inputs) {}

  std::vector<ImportedLayer> map() {
    remark_phases(network_, graph_, remarks_);
    if (!graph_.inputs().empty()) {
      Extents extents;
      for (const CaffeInput& input : network_.inputs()) extents.push_back(input.extents);
      bind_inputs(graph_.inputs(), PhaseSet::all(), extents, network_.top().place_of("input"));
    }
    for (const GraphLayer& layer : graph_.layers()) map_layer(layer);
    auxiliary_inputs_.check_given();
    return std::move(layers_);
  }

 private:
  using Extents = std::vector<std::vector<int64_t>>;
  void bind_inputs(const std::vector<int>& values, PhaseSet phases, const Extents& extents,
                   const Place& place);
  Source source_of_input(const std::vector<int>& values, size_t index, Phase phase,
                         const std::vector<int64_t>& extents, const Place& place);
  void map_layer(const GraphLayer& layer);
  void map_split(const GraphLayer& layer);
  void map_slice(const GraphLayer& layer);
  void leave_out(const GraphLayer& layer, const std::string& why);
  void pass_on(const GraphLayer& layer);
  void pass_through(const GraphLayer& layer);
  void map_known(const GraphLayer& layer, LayerMapping mapping);
  bool join_batch_norm(const GraphLayer& layer);
  const CaffeLayer* batch_norm_before(const GraphLayer& layer) const;
  Inputs inputs_of(const GraphLayer& layer, const std::string& type);
  std::vector<std::string> inputs_in(const GraphLayer& layer, const std::string& type, Phase phase);
  std::vector<int> read_by(const GraphLayer& layer, const std::string& type, Phase phase) const;
  void multiply(Inputs& inputs, const std::vector<double>& factors, const GraphLayer& layer);
  bool reads_before(const Inputs& inputs, Phase phase) const;
  void put(const std::string& name, const Inputs& inputs, const Json& keys,
           const GraphLayer& layer);
  std::string new_name(const GraphLayer& layer);
  std::string unique_name(const std::string& stem, PhaseSet phases);
  void add(const GraphLayer& layer, const MappedLayer& mapped);
  Json with_parameters(Json keys, const CaffeLayer& layer, const std::string& name, int parameters);
  Source& source(int value, Phase phase) { return sources_[static_cast<size_t>(value)][phase]; }
  void set_source(int value, PhaseSet phases, const std::string& layer);

  const CaffeNetwork& network_;
  const BlobGraph graph_;
  Remarks& remarks_;
  std::vector<PerPhase<Source>> sources_;  ///< for each value of the graph
  std::vector<ImportedLayer> layers_;
  PerPhase<std::string> before_;  ///< name of the last layer in each phase; "": none
  PerPhase<std::set<std::string>> names_;
  ParameterOwners owners_;
  PerPhase<bool> has_images_, has_labels_;
  AuxiliaryInputs& auxiliary_inputs_;
};

/// Sets the sources of the values that a data layer or the network's inputs provide. `extents`:
/// batch extents of each value; empty if not stated.
void NetworkMapper::bind_inputs(const std::vector<int>& values, PhaseSet phases,
                                const Extents& extents, const Place& place) {
  for (const Phase phase : kBothPhases)
    for (size_t i = 0; i < values.size() && phases[phase]; ++i)
      source(values[i], phase) = source_of_input(values, i, phase, extents[i], place);
}

/// Returns the source of the value at `index`. In each phase, the first value is the images. The
/// labels are the value "label" or, without such a value, the next value. Values in --extra are
/// never labels. All other values are auxiliary inputs, or kShapeless if their shape is unknown.
Source NetworkMapper::source_of_input(const std::vector<int>& values, size_t index, Phase phase,
                                      const std::vector<int64_t>& extents, const Place& place) {
  const auto name_at = [&](size_t i) -> const std::string& {
    return graph_.values()[static_cast<size_t>(values[i])].name;
  };
  const std::string& blob = name_at(index);
  if (!std::exchange(has_images_[phase], true)) return {.kind = Source::Kind::kInput};
  bool is_label = !has_labels_[phase] && !auxiliary_inputs_.is_given(blob);
  for (size_t i = index + 1; i < values.size(); ++i)
    is_label =
        is_label && (name_at(i) != net::kLabelName || auxiliary_inputs_.is_given(name_at(i)));
  if (is_label) {
    has_labels_[phase] = true;
    return {.kind = Source::Kind::kLabels};
  }
  const std::optional<size_t> extra = auxiliary_inputs_.find_or_add(blob, extents, place);
  if (!extra) return {.kind = Source::Kind::kShapeless};
  if (!auxiliary_inputs_.has_name(*extra))
    auxiliary_inputs_.rename(*extra, unique_name(valid_input_name(blob), PhaseSet::all()));
  return {.kind = Source::Kind::kExtra, .layer = "", .extra = *extra};
}

void NetworkMapper::set_source(int value, PhaseSet phases, const std::string& layer) {
  for (const Phase phase : kBothPhases)
    if (phases[phase]) source(value, phase) = {.kind = Source::Kind::kLayer, .layer = layer};
}

void NetworkMapper::map_layer(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  if (caffe.is_data_layer())
    return bind_inputs(layer.tops, layer.phases, extents_of_tops(caffe), caffe.place());
  if (caffe.type == "Split") return map_split(layer);
  if (caffe.type == "Slice") return map_slice(layer);
  if (caffe.type == "Accuracy" && !has_equal_accuracy(caffe))
    return leave_out(layer, "tests report the accuracy");
  if (caffe.type == "Silence" && !exists_here("silence"))
    return leave_out(layer, "Poseidon prints no unread outputs");
  if (caffe.type == "Scale" && join_batch_norm(layer)) return;
  const LayerMapping mapping = mapping_of(caffe.type);
  if (mapping != nullptr) return map_known(layer, mapping);
  if (!layer.phases[Phase::kTrain]) {
    remarks_.warn(
        caffe.place(),
        caffe.shown() + " is in TEST only and has no equivalent in Poseidon: " + "it is left out");
    return pass_through(layer);
  }
  const std::string reason = unsupported_reason(caffe.type);
  remarks_.refuse(caffe.place(),
                  caffe.shown() + (reason.empty() ? ": the importer does not know this type"
                                                  : " has no equivalent in Poseidon: " + reason));
  pass_through(layer);
}

void NetworkMapper::map_split(const GraphLayer& layer) {
  if (layer.layer->bottoms.size() != 1)
    fail_at(layer.layer->place(),
            text(layer.layer->shown(), ": expected 1 bottom, got ", layer.layer->bottoms.size()));
  pass_on(layer);
}

/// Omits the layer: the source of its first bottom becomes the source of all its tops.
void NetworkMapper::pass_on(const GraphLayer& layer) {
  for (const Phase phase : kBothPhases)
    if (layer.phases[phase])
      for (const int top : layer.tops) source(top, phase) = source(layer.bottoms[phase][0], phase);
}

/// Creates a slice layer for each top.
void NetworkMapper::map_slice(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  const std::vector<int64_t> ends = ends_of_slices(caffe, layer.tops.size(), remarks_);
  const Inputs inputs = inputs_of(layer, "slice");
  int64_t begin = 0;
  for (size_t i = 0; i < layer.tops.size(); ++i) {
    const std::string name = unique_name(text(usable_name(caffe), "_", i + 1), layer.phases);
    Json keys{{"type", "slice"}};
    if (begin > 0) keys["begin"] = begin;
    if (i < ends.size()) keys["end"] = begin = ends[i];
    put(name, inputs, keys, layer);
    set_source(layer.tops[i], layer.phases, name);
  }
}

void NetworkMapper::leave_out(const GraphLayer& layer, const std::string& why) {
  remarks_.note(layer.layer->place(), layer.layer->shown() + " is left out: " + why);
  layer.layer->message.mark_all_as_read();
}

/// Omits a layer and ignores its fields. Layers that read its tops read its first bottom instead.
void NetworkMapper::pass_through(const GraphLayer& layer) {
  layer.layer->message.mark_all_as_read();
  if (!layer.layer->bottoms.empty()) pass_on(layer);
}

void NetworkMapper::map_known(const GraphLayer& layer, LayerMapping mapping) {
  const CaffeLayer& caffe = *layer.layer;
  const MappedLayer mapped = mapping(caffe, remarks_);
  const auto type = mapped.keys["type"].get<std::string>();
  if (!exists_here(type)) {
    remarks_.refuse(caffe.place(),
                    text(caffe.shown(), " maps to \"", type, "\", which this version lacks"));
    return pass_through(layer);
  }
  add(layer, mapped);
}

/// Merges a Scale layer into the BatchNorm layer before it, because Poseidon's batch norm has scale
/// and shift. Returns false if there is no such BatchNorm layer.
bool NetworkMapper::join_batch_norm(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  const CaffeLayer* const norm = batch_norm_before(layer);
  if (norm == nullptr) return false;
  const MappedLayer scale = mapping_of("Scale")(caffe, remarks_);
  const bool bias = scale.parameters == 2;
  std::vector<CaffeParam> params = params_of(caffe, scale.parameters, remarks_);
  if (!bias) params.push_back({.rate = 0});
  std::string name;
  for (ImportedLayer& ours : layers_) {
    if (ours.source != norm) continue;
    Json& json = ours.json;
    json.erase("learning_rate_multipliers");
    if (scale.keys.contains("scale_filler")) json["scale_filler"] = scale.keys["scale_filler"];
    if (scale.keys.contains("bias_filler")) json["shift_filler"] = scale.keys["bias_filler"];
    put_multipliers(json, params);
    ours.scale = &caffe;
    name = ours.name();
  }
  pass_on(layer);
  remarks_.note(
      caffe.place(),
      text(caffe.shown(), " becomes the scale and shift of the batch norm \"", name, "\""));
  return true;
}

/// Returns the BatchNorm layer whose output only this Scale layer reads, in the same phases; null:
/// none.
const CaffeLayer* NetworkMapper::batch_norm_before(const GraphLayer& layer) const {
  std::set<int> values;
  for (const Phase phase : kBothPhases)
    values.insert(layer.bottoms[phase].begin(), layer.bottoms[phase].end());
  if (values.size() != 1 || layer.layer->bottoms.size() != 1) return nullptr;
  const BlobValue& read = graph_.values()[static_cast<size_t>(*values.begin())];
  if (read.readers != 1 || read.producer < 0) return nullptr;
  const GraphLayer& producer = graph_.layers()[static_cast<size_t>(read.producer)];
  const bool is_mapped =
      std::ranges::find(layers_, producer.layer, &ImportedLayer::source) != layers_.end();
  const bool fits =
      producer.layer->type == "BatchNorm" && is_mapped && producer.phases == layer.phases;
  return fits ? producer.layer : nullptr;
}

/// Returns the values that the layer reads, without labels. Labels are the last input, and network
/// files may omit them. Throws ConfigError if a layer that needs labels does not read them.
std::vector<int> NetworkMapper::read_by(const GraphLayer& layer, const std::string& type,
                                        Phase phase) const {
  const CaffeLayer& caffe = *layer.layer;
  const std::vector<int>& bottoms = layer.bottoms[phase];
  const int label = layers::make_definition(type)->label_input();
  if (label < 0) return bottoms;
  const auto named = static_cast<size_t>(label);
  const std::string scores = label == 1 ? "scores" : counted(named, "input");
  if (bottoms.size() <= named || !sources_[static_cast<size_t>(bottoms[named])][phase].is_labels())
    fail_at(caffe.message.place_of("bottom"),
            text(caffe.shown(), ": expected ", scores,
                 " and the labels of the data as its inputs, ", "got others"));
  if (bottoms.size() > named + 1)
    remarks_.refuse(caffe.message.place_of("bottom"),
                    text(caffe.shown(), ": expected ", named + 1, " inputs, got ", bottoms.size()));
  return {bottoms.begin(), bottoms.begin() + label};
}

Inputs NetworkMapper::inputs_of(const GraphLayer& layer, const std::string& type) {
  Inputs inputs;
  for (const Phase phase : kBothPhases)
    if (layer.phases[phase]) inputs[phase] = inputs_in(layer, type, phase);
  return inputs;
}

std::vector<std::string> NetworkMapper::inputs_in(const GraphLayer& layer, const std::string& type,
                                                  Phase phase) {
  std::vector<std::string> inputs;
  for (const int value : read_by(layer, type, phase)) {
    const Source& from = source(value, phase);
    const std::string& blob = graph_.values()[static_cast<size_t>(value)].name;
    if (from.kind == Source::Kind::kNothing)
      fail_at(layer.layer->message.place_of("bottom"),
              text(layer.layer->shown(), " reads \"", blob,
                   "\", which has no equivalent in Poseidon: expected the first top of a layer, or "
                   "the images"));
    if (from.kind == Source::Kind::kShapeless)
      fail_at(layer.layer->message.place_of("bottom"),
              text(layer.layer->shown(), " reads \"", blob,
                   "\", whose shape the file does not state: expected --extra ", blob,
                   "=CHANNELSxHEIGHTxWIDTH"));
    inputs.push_back(from.kind == Source::Kind::kExtra ? auxiliary_inputs_.use(from.extra)
                                                       : from.name());
  }
  return inputs;
}

/// Returns true if the only input is the previous layer of the phase. Network files may omit this
/// input.
bool NetworkMapper::reads_before(const Inputs& inputs, Phase phase) const {
  const std::string& before = before_[phase].empty() ? net::kInputName : before_[phase];
  return inputs[phase].size() == 1 && inputs[phase][0] == before;
}

/// Adds a Poseidon layer. If one layer cannot state the inputs of both phases, adds a layer for
/// each phase.
void NetworkMapper::put(const std::string& name, const Inputs& inputs, const Json& keys,
                        const GraphLayer& layer) {
  const PhaseSet phases = layer.phases;
  PhaseSet reads_last;
  for (const Phase phase : kBothPhases) reads_last[phase] = reads_before(inputs, phase);
  const bool once =
      phases.both() && (reads_last.both() || inputs[Phase::kTrain] == inputs[Phase::kTest]);
  for (const Phase phase : kBothPhases) {
    if (!phases[phase] || (once && phase == Phase::kTest)) continue;
    Json json{{"name", name}};
    if (!once) json["phase"] = net::name_of(phase);
    const bool is_implied = once ? reads_last.both() : reads_last[phase];
    if (inputs[phase].size() > 1) json["inputs"] = inputs[phase];
    if (inputs[phase].size() == 1 && !is_implied) json["input"] = inputs[phase][0];
    json.update(keys);
    layers_.push_back({.json = std::move(json),
                       .source = layer.layer,
                       .phases = once ? phases : PhaseSet::of(phase)});
  }
  for (const Phase phase : kBothPhases)
    if (phases[phase]) before_[phase] = name;
}

std::string NetworkMapper::new_name(const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  std::string name = unique_name(usable_name(caffe), layer.phases);
  if (name != caffe.name)
    remarks_.note(caffe.place(), text(caffe.shown(), " is renamed to \"", name, "\""));
  return name;
}

/// Returns a name that is unused in all of `phases`, and reserves it: `stem`, or `stem` and a
/// number.
std::string NetworkMapper::unique_name(const std::string& stem, PhaseSet phases) {
  const auto is_taken = [&](const std::string& name) {
    return std::ranges::any_of(
        kBothPhases, [&](Phase phase) { return phases[phase] && names_[phase].contains(name); });
  };
  std::string name = stem;
  for (int i = 2; is_taken(name); ++i) name = text(stem, "_", i);
  for (const Phase phase : kBothPhases)
    if (phases[phase]) names_[phase].insert(name);
  return name;
}

/// Inserts a power layer before each input that has a factor other than 1.
void NetworkMapper::multiply(Inputs& inputs, const std::vector<double>& factors,
                             const GraphLayer& layer) {
  const CaffeLayer& caffe = *layer.layer;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (factors[i] == 1) continue;
    if (!exists_here("power"))
      return remarks_.refuse(
          caffe.place(),
          text(caffe.shown(), ": expected a sum without factors, got the factor ", factors[i]));
    const std::string name = unique_name(text(usable_name(caffe), "_input_", i), layer.phases);
    Inputs one;
    for (const Phase phase : kBothPhases)
      if (layer.phases[phase]) one[phase] = {std::exchange(inputs[phase][i], name)};
    put(name, one, {{"type", "power"}, {"scale", plain_number(factors[i])}}, layer);
  }
}

void NetworkMapper::add(const GraphLayer& layer, const MappedLayer& mapped) {
  const CaffeLayer& caffe = *layer.layer;
  if (!is_loss(caffe) && std::ranges::any_of(caffe.loss_weights, [](double w) { return w != 0; }))
    remarks_.refuse(caffe.message.place_of("loss_weight"),
                    caffe.shown() + ": only a loss can have a \"loss_weight\"");
  const std::string name = new_name(layer);
  Inputs inputs = inputs_of(layer, mapped.keys["type"]);
  multiply(inputs, mapped.input_factors, layer);
  put(name, inputs, with_parameters(mapped.keys, caffe, name, mapped.parameters), layer);
  if (!layer.tops.empty()) set_source(layer.tops[0], layer.phases, name);
}

/// Returns `keys` with multipliers. If another layer owns the parameters, also adds the key
/// "shares" and uses the owner's multipliers. Omits "shares" if the owner has the same name,
/// because layers of different phases with one name share implicitly.
Json NetworkMapper::with_parameters(Json keys, const CaffeLayer& layer, const std::string& name,
                                    int parameters) {
  if (parameters == 0) return keys;
  std::vector<CaffeParam> params = params_of(layer, parameters, remarks_);
  const ParameterOwners::Owner* owner = owners_.of(params, layer, name, remarks_);
  if (owner != nullptr) {
    if (owner->layer != name) keys["shares"] = owner->layer;
    params = owner->params;
  }
  put_multipliers(keys, params);
  return keys;
}

}  // namespace

ImportedNetwork map_network(const CaffeNetwork& network, SampleShape input, Remarks& remarks,
                            std::vector<AuxiliaryInput> extras) {
  ImportedNetwork imported;
  AuxiliaryInputs auxiliary_inputs(std::move(extras));
  imported.layers = NetworkMapper(network, remarks, auxiliary_inputs).map();
  Json& json = imported.json;
  json["name"] = network.name().empty() ? "network" : network.name();
  json["input"] = {{"channels", input[0]}, {"height", input[1]}, {"width", input[2]}};
  for (const AuxiliaryInput& extra : auxiliary_inputs.used())
    json["inputs"].push_back({{"name", extra.name}, {"shape", extra.extents}});
  json["layers"] = Json::array();
  for (const ImportedLayer& layer : imported.layers) json["layers"].push_back(layer.json);
  return imported;
}

}  // namespace poseidon::importer
