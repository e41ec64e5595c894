#include "net/network.h"

#include <algorithm>
#include <map>
#include <optional>

#include "core/config_file.h"
#include "core/error.h"
#include "layers/registry.h"
#include "net/blocks.h"

namespace poseidon::net {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

/// Describes the key "scheme" of linear layers. The trainer uses this key; the layer does not.
void describe_scheme(Fields& fields, std::string& scheme) {
  static const std::vector<std::string> kNames{"auto", "ps", "sfb"};
  int index = static_cast<int>(std::find(kNames.begin(), kNames.end(), scheme) - kNames.begin());
  fields.choice("scheme", index, kNames,
                "overrides comm.scheme: parameter server or sufficient factors; auto: as the job");
  scheme = kNames[static_cast<size_t>(index)];
}

/// One variant for each layer type. Reading a variant sets the definition and scheme of `node`.
std::vector<Variant> layer_variants(Node& node) {
  std::vector<Variant> variants;
  for (const layers::LayerType& type : layers::layer_types())
    variants.push_back({type.name, type.doc, [&node, type](Fields& fields) {
                          node.definition = type.make();
                          node.definition->describe(fields);
                          if (node.definition->factors()) describe_scheme(fields, node.scheme);
                        }});
  return variants;
}

/// Describes the fields of one layer. Reading creates the definition for the value of "type".
void describe_layer(Fields& fields, Node& node) {
  std::string type;
  fields.variant("type", type, layer_variants(node), "layer type");
}

/// Throws ConfigError for an unknown layer type or key in "defaults". The error states the position
/// in "defaults", not that of a layer that inherits the key.
void check_defaults(const Json& network, const JsonPath& top) {
  if (!network.contains("defaults") || !network["defaults"].is_object()) return;
  const JsonPath place = top.at("defaults");
  Node node;
  std::map<std::string, std::vector<std::string>> keys_of_type;
  std::vector<std::string> types;
  for (const Variant& variant : layer_variants(node)) {
    types.push_back(variant.name);
    const Json schema = schema_of(variant.describe);
    for (const auto& [key, unused] : schema["properties"].items())
      keys_of_type[variant.name].push_back(key);
  }
  for (const auto& [type, values] : network["defaults"].items()) {
    if (std::ranges::find(types, type) == types.end())
      fail_at(place.at(type), "no layer type has this name" + suggestion(type, types));
    if (!values.is_object()) continue;  // expand_layers rejects it
    const std::vector<std::string>& keys = keys_of_type[type];
    for (const auto& [key, value] : values.items())
      if (std::ranges::find(keys, key) == keys.end())
        fail_at(place.at(type).at(key), "unknown key" + suggestion(key, keys));
  }
}

/// Stable topological order: among the layers that are ready, the first one in the file comes next.
/// Throws ConfigError if inputs and "shares" form a cycle.
std::vector<size_t> execution_order(const std::vector<LayerEntry>& entries,
                                    const std::map<std::string, size_t>& index) {
  std::vector<size_t> order, waiting(entries.size());
  std::vector<std::vector<size_t>> consumers(entries.size());
  std::vector<size_t> ready;  // a heap, smallest first
  for (size_t i = 0; i < entries.size(); ++i) {
    for (const std::string& input : entries[i].inputs) {
      const auto layer = index.find(input);
      if (layer == index.end()) continue;  // an external input
      consumers[layer->second].push_back(i);
      ++waiting[i];
    }
    // The owner of shared parameters comes before the layers that use them.
    if (const auto owner = index.find(entries[i].shares); owner != index.end()) {
      consumers[owner->second].push_back(i);
      ++waiting[i];
    }
    if (waiting[i] == 0) ready.push_back(i);
  }
  std::make_heap(ready.begin(), ready.end(), std::greater<>());
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::greater<>());
    const size_t next = ready.back();
    ready.pop_back();
    order.push_back(next);
    for (size_t consumer : consumers[next]) {
      if (--waiting[consumer] != 0) continue;
      ready.push_back(consumer);
      std::push_heap(ready.begin(), ready.end(), std::greater<>());
    }
  }
  for (size_t i = 0; i < entries.size(); ++i)
    if (waiting[i] != 0)
      fail_at(entries[i].place,
              "the layer \"" + entries[i].name + "\" is in a cycle of inputs, or depends on one");
  return order;
}

void check_fillers(const layers::Definition& definition, const JsonPath& place) {
  for (const layers::ParameterSpec& spec : definition.parameters())
    if (const std::string problem = spec.filler.problem_with(spec.shape); !problem.empty())
      fail_at(place.at(spec.name + "_filler"), problem);
}

Shape infer(layers::Definition& definition, std::span<const Shape> inputs, const JsonPath& place) {
  Shape output;
  try {
    output = definition.infer(inputs);
    static_cast<void>(definition.parameters());  // throws if there are too many multipliers
  } catch (const ConfigError& error) {
    fail_at(place, error.what());
  }
  check_fillers(definition, place);
  int64_t count = 1;
  for (int64_t extent : output.extents())
    if (__builtin_mul_overflow(count, extent, &count) || count >= kMostElements)
      fail_at(place, text("the output ", output.text(), " has 2^31 elements or more"));
  return output;
}

/// The position in "defaults" from which a layer inherited the value at `wrong`; none if the layer
/// sets the value itself.
std::optional<JsonPath> place_in_defaults(const LayerEntry& entry, const JsonPath& wrong) {
  for (const std::string& key : entry.defaulted) {
    const std::string taken = entry.place.at(key).pointer;
    if (wrong.pointer != taken && !wrong.pointer.starts_with(taken + "/")) continue;
    const JsonPath given = defaults_of(wrong.file, entry.json["type"].get<std::string>()).at(key);
    return JsonPath{given.file, given.pointer + wrong.pointer.substr(taken.size())};
  }
  return std::nullopt;
}

/// Returns the origins of the inherited keys that `message` contains. Example: "kernel" is from
/// /defaults/convolution.
std::string what_is_from_defaults(const LayerEntry& entry, const std::string& message) {
  std::string out;
  for (const std::string& key : entry.defaulted)
    if (message.find(key) != std::string::npos)
      out += text("; \"", key, "\" is from ",
                  defaults_of("", entry.json["type"].get<std::string>()).pointer);
  return out;
}

/// Runs an action that reads or checks a layer. Reports an error in an inherited value at the
/// position of the value in "defaults", and names the layer that inherited it. Any other message
/// also states the origins of the inherited keys that it contains.
template <class Action>
void with_places_of(const LayerEntry& entry, const Action& action) {
  try {
    action();
  } catch (const JsonPathError& error) {
    if (const auto given = place_in_defaults(entry, error.place()))
      fail_at(*given, text(error.message(), " (inherited by the layer \"", entry.name, "\" at ",
                           entry.place.pointer, ")"));
    fail_at(error.place(), error.message() + what_is_from_defaults(entry, error.message()));
  }
}

int owner_of(const LayerEntry& entry, const std::map<std::string, int>& node_of) {
  const auto owner = node_of.find(entry.shares);
  if (owner == node_of.end())
    fail_at(entry.place.at("shares"), "no layer is named \"" + entry.shares + "\"");
  return owner->second;
}

/// A layer's inputs, including the labels if the layer reads them without listing them. Throws
/// ConfigError if another input is at the position of the labels.
std::vector<std::string> inputs_of(const LayerEntry& entry, const layers::Definition& definition) {
  std::vector<std::string> inputs = entry.inputs;
  const int label = definition.label_input();
  if (label < 0) return inputs;
  if (std::ssize(inputs) == label) inputs.emplace_back(kLabelName);
  if (std::ssize(inputs) == label + 1 && inputs.back() != kLabelName)
    fail_at(entry.place, text("expected \"label\" (the samples' labels) as the last input, got \"",
                              inputs.back(), "\""));
  return inputs;
}

/// Throws ConfigError if the layer reads labels but does not support mixed samples (mixup/cutmix).
/// Such a layer would compute wrong values from the first label alone.
void check_takes_mixtures(const Node& node, const JsonPath& place) {
  if (std::ranges::count(node.inputs, kNetworkLabel) == 0 || node.definition->supports_mixup())
    return;
  fail_at(place, text("a layer of type ", node.definition->type(),
                      " supports one label per sample, but \"mix\" in the job combines two: "
                      "expected softmax_loss or accuracy"));
}

void mark_what_reaches_a_loss(std::vector<Node>& nodes) {
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    node.reaches_loss = node.reaches_loss || node.definition->is_loss();
    if (!node.reaches_loss) continue;
    if (node.shares >= 0) nodes[static_cast<size_t>(node.shares)].reaches_loss = true;
    for (const int input : node.inputs)
      if (input >= 0) nodes[static_cast<size_t>(input)].reaches_loss = true;
  }
}

bool same(const LayerEntry& one, const LayerEntry& other) {
  return one.name == other.name && one.inputs == other.inputs && one.shares == other.shares &&
         one.json == other.json;
}

/// The names and shapes of the tensors that a node owns: "weight 10x100, bias 10".
std::string tensors_text(const Node& node) {
  std::string out;
  const auto add = [&](const std::string& name, const Shape& shape) {
    out += text(out.empty() ? "" : ", ", name, " ", shape.text());
  };
  for (const layers::ParameterSpec& spec : node.parameters()) add(spec.name, spec.shape);
  for (const layers::StatisticSpec& spec : node.definition->statistics())
    add(spec.name, spec.shape);
  return out;
}

/// Throws ConfigError if a test layer owns tensors, but no training layer has the same name, type
/// and tensors. The test layer uses the tensors of that training layer.
void check_trained(const Node& node, const Network& trained, const JsonPath& place) {
  const std::string own = tensors_text(node), &name = node.definition->name;
  if (own.empty()) return;
  const std::optional<int> index = trained.index_of(name);
  if (!index)
    fail_at(place,
            text("\"", name, "\" is only in phase \"test\", so no layer trains its tensors (", own,
                 "): expected \"shares\", or a layer with the same name in phase \"train\""));
  const auto whole_text = [](const Node& each) {
    const std::string tensors = tensors_text(each);
    return text(each.definition->type(), " with ",
                tensors.empty() ? "no separate tensors" : tensors);
  };
  const std::string expected = whole_text(trained.nodes()[static_cast<size_t>(*index)]);
  if (const std::string got = whole_text(node); got != expected)
    fail_at(place, text("\"", name,
                        "\" uses the parameters of the layer with the same name in phase "
                        "\"train\": expected ",
                        expected, ", got ", got));
}

}  // namespace

void describe_network(Fields& fields) {
  std::string name;
  int64_t extent = 1;
  Json raw;
  std::vector<std::string> inputs;
  int phase = static_cast<int>(phase_names().size()) - 1;
  Node node;
  fields.text("name", name, "name of the network", Presence::kRequired);
  fields.object(
      "input",
      [&](Fields& f) {
        f.integer("channels", extent, between(1, 1 << 16), "channels per sample",
                  Presence::kRequired);
        f.integer("height", extent, between(1, 1 << 16), "rows");
        f.integer("width", extent, between(1, 1 << 16), "columns");
      },
      "shape of a sample", Presence::kRequired);
  std::vector<AuxiliaryInput> extras;
  describe_auxiliary_inputs(
      fields, "inputs", extras,
      "auxiliary inputs: float tensors of each sample in addition to its image; layers "
      "read them by name");
  fields.raw("defaults", raw, "default values of layer keys, by layer type");
  fields.raw("blocks", raw,
             "by name: {\"parameters\": {name: default, or null if required}, \"layers\": [...]}; "
             "layers use \"$name\" or \"$name * 4\"");
  fields.objects(
      "layers", 0, [](size_t) {},
      [&](Fields& f, size_t) {
        f.text("name", name,
               "unique within a phase; prefix of parameter names such as conv1.weight",
               Presence::kRequired);
        f.texts("input", inputs,
                "layer to read; default: the previous one of the same phase. \"input\": input of "
                "the network or block; \"label\": labels; or a name of the network's \"inputs\"");
        f.texts("inputs", inputs, "names as in \"input\", for layers with several inputs");
        f.text("shares", name, "layer, or use of the block, with which it shares parameters");
        f.choice("phase", phase, phase_names(),
                 "phase of the layer; test includes --classify, --extract and exports "
                 "(docs/networks.md)");
        std::vector<Variant> variants = layer_variants(node);
        variants.push_back({"block", "layers of a block, once or repeated", [&](Fields& g) {
                              g.text("block", name, "name of the block", Presence::kRequired);
                              g.raw("with", raw, "values of the block's parameters");
                              g.integer("repeat", extent, between(1, 10000),
                                        "number of copies, one after another");
                            }});
        std::string type;
        f.variant("type", type, variants, "layer type");
      },
      "layers in any order without cycles", Presence::kRequired);
}

Network::Network(const std::filesystem::path& file, int64_t batch, LabelForm form)
    : Network(read_config(file), file.string(), batch, form) {}

Network::Network(const Json& json, const std::string& file, int64_t batch, LabelForm form)
    : file_(file), json_(json), label_form_(form) {
  read_head(batch);
  check_defaults(json, {file, ""});
  const std::vector<LayerEntry> entries = expand_layers(json, file, layers::Phase::kTrain, extras_);
  read_layers(entries, nullptr);
  const std::vector<LayerEntry> in_test = expand_layers(json, file, layers::Phase::kTest, extras_);
  if (!std::ranges::equal(entries, in_test, same)) test_.reset(new Network(*this, in_test));
}

/// Tests do not mix samples, so the label form is kPlain.
Network::Network(const Network& trained, const std::vector<LayerEntry>& entries)
    : file_(trained.file_),
      json_(trained.json_),
      name_(trained.name_),
      input_(trained.input_),
      extras_(trained.extras_),
      label_form_(LabelForm::kPlain) {
  read_layers(entries, &trained);
}

void Network::read_head(int64_t batch) {
  const JsonPath top{file_, ""};
  int64_t channels = 0, height = 1, width = 1;
  Json unused;
  read_fields(json_, top, [&](Fields& fields) {
    fields.text("name", name_, "", Presence::kRequired);
    fields.object(
        "input",
        [&](Fields& f) {
          f.integer("channels", channels, between(1, 1 << 16), "", Presence::kRequired);
          f.integer("height", height, between(1, 1 << 16), "");
          f.integer("width", width, between(1, 1 << 16), "");
        },
        "", Presence::kRequired);
    describe_auxiliary_inputs(fields, "inputs", extras_, "");
    for (const char* key : {"defaults", "blocks", "layers"}) fields.raw(key, unused, "");
  });
  input_ = {batch, channels, height, width};
  if (input_.count() >= kMostElements)
    fail_at(top.at("input"), text("the input ", input_.text(), " has 2^31 elements or more"));
  if (const AuxiliaryInputError fault = first_error_in(extras_))
    fail_at({file_, "/inputs" + fault.pointer}, fault.message);
  for (const AuxiliaryInput& extra : extras_)
    if (extra.batch_shape(batch).count() >= kMostElements)
      fail_at(top.at("inputs"),
              text("the input \"", extra.name, "\", ", extra.batch_shape(batch).text(),
                   ", has 2^31 elements or more"));
}

void Network::read_layers(const std::vector<LayerEntry>& entries, const Network* trained) {
  std::map<std::string, size_t> index;
  for (size_t i = 0; i < entries.size(); ++i) index[entries[i].name] = i;
  node_of_ = {{kInputName, kNetworkInput}, {kLabelName, kNetworkLabel}};
  for (size_t i = 0; i < extras_.size(); ++i)
    node_of_[extras_[i].name] = auxiliary_input_number(static_cast<int>(i));
  for (size_t i : execution_order(entries, index)) {
    const LayerEntry& entry = entries[i];
    Node node = read_layer(entry);
    if (!entry.shares.empty() && !node.definition->parameters().empty())
      share(node, owner_of(entry, node_of_), entry.place.at("shares"));
    if (trained != nullptr) check_trained(node, *trained, entry.place);
    node_of_[entry.name] = static_cast<int>(nodes_.size());
    nodes_.push_back(std::move(node));
  }
  mark_what_reaches_a_loss(nodes_);
}

/// Creates the node of a layer. The nodes of the layer's inputs must exist already.
Node Network::read_layer(const LayerEntry& entry) const {
  Node node;
  with_places_of(entry, [&] {
    read_fields(entry.json, entry.place, [&](Fields& fields) { describe_layer(fields, node); });
  });
  node.definition->name = entry.name;
  std::vector<Shape> shapes;
  for (const std::string& input : inputs_of(entry, *node.definition)) {
    node.inputs.push_back(node_of_.at(input));
    shapes.push_back(shape_of(node.inputs.back()));
    if (node.inputs.back() >= 0 &&
        !nodes_[static_cast<size_t>(node.inputs.back())].definition->scalars().empty())
      fail_at(entry.place, "\"" + input + "\" reports scalars, so no layer can read it");
  }
  if (label_form_ == LabelForm::kMixed) check_takes_mixtures(node, entry.place);
  with_places_of(entry, [&] { node.output = infer(*node.definition, shapes, entry.place); });
  return node;
}

std::optional<int> Network::index_of(const std::string& name) const {
  const auto found = node_of_.find(name);
  if (found == node_of_.end() || found->second < 0) return std::nullopt;
  return found->second;
}

/// Makes `node` use the parameters of the node with the index `owner`, or of the node whose
/// parameters that node uses. Throws ConfigError if types or shapes differ, or if the layer has
/// running statistics.
void Network::share(Node& node, int owner, const JsonPath& place) {
  Node& other = nodes_[static_cast<size_t>(owner)];
  if (other.shares >= 0) return share(node, other.shares, place);
  const layers::Definition &mine = *node.definition, &theirs = *other.definition;
  const auto refuse = [&](const std::string& why) {
    fail_at(place, text("\"", mine.name, "\" cannot share the parameters of \"", theirs.name,
                        "\": ", why));
  };
  if (mine.type() != theirs.type())
    refuse(text("expected a layer of type ", mine.type(), ", got type ", theirs.type()));
  if (!mine.statistics().empty()) refuse("layers of this type have running statistics");
  const auto own = mine.parameters(), shared = theirs.parameters();
  if (own.size() != shared.size())
    refuse(text("expected ", own.size(), " parameters, got ", shared.size()));
  for (size_t i = 0; i < own.size(); ++i)
    if (!(own[i].shape == shared[i].shape))
      refuse(text("expected ", own[i].name, " of shape ", own[i].shape.text(), ", got ",
                  shared[i].shape.text()));
  node.shares = owner;
  other.is_shared = true;
}

int64_t Network::classes() const {
  for (const Node& node : nodes_)
    if (node.definition->is_loss_of_classes()) return shape_of(node.inputs[0]).channels();
  return 0;
}

bool Network::has_loss() const {
  return std::ranges::any_of(nodes_, [](const Node& node) { return node.definition->is_loss(); });
}

std::vector<layers::ParameterSpec> Node::parameters() const {
  return shares >= 0 ? std::vector<layers::ParameterSpec>{} : definition->parameters();
}

std::optional<layers::FactorShape> Node::factors() const {
  return shares >= 0 || is_shared ? std::nullopt : definition->factors();
}

std::vector<ReportedScalar> Network::scalars() const {
  std::vector<ReportedScalar> all;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const layers::Definition& definition = *nodes_[i].definition;
    const std::vector<std::string> names = definition.scalars();
    for (size_t k = 0; k < names.size(); ++k)
      all.push_back({.layer = definition.name,
                     .name = names[k],
                     .node = static_cast<int>(i),
                     .is_loss = definition.is_loss() && k == 0,
                     .weight = definition.is_loss() ? definition.loss_weight() : 0});
  }
  return all;
}

Shape Network::shape_of(int input) const {
  if (input == kNetworkInput) return input_;
  if (input == kNetworkLabel) return label();
  return input >= 0
             ? nodes_[static_cast<size_t>(input)].output
             : extras_[static_cast<size_t>(auxiliary_input_index(input))].batch_shape(batch());
}

const std::string& source_name(const Network& network, int input) {
  static const std::string kInput = kInputName, kLabel = kLabelName;
  if (input == kNetworkInput) return kInput;
  if (input == kNetworkLabel) return kLabel;
  return input >= 0 ? network.nodes()[static_cast<size_t>(input)].definition->name
                    : network.extras()[static_cast<size_t>(auxiliary_input_index(input))].name;
}

bool Network::reads_labels() const {
  return std::ranges::any_of(nodes_, [](const Node& node) {
    return std::ranges::find(node.inputs, kNetworkLabel) != node.inputs.end();
  });
}

namespace {

int64_t parameter_count(const Node& node) {
  int64_t count = 0;
  for (const layers::ParameterSpec& spec : node.parameters()) count += spec.shape.count();
  return count;
}

}  // namespace

int64_t Network::parameter_count() const {
  int64_t count = 0;
  for (const Node& node : nodes_) count += net::parameter_count(node);
  return count;
}

Json Network::summary() const {
  Json layers = Json::array();
  const auto add = [&](const Node& node, const Network& others, layers::Phase phase) {
    layers.push_back({{"name", node.definition->name},
                      {"type", node.definition->type()},
                      {"output_shape", node.output.extents()},
                      {"parameters", net::parameter_count(node)}});
    if (!others.index_of(node.definition->name)) layers.back()["phase"] = name_of(phase);
  };
  int64_t activations = input_.count() + batch() * count_of(extras_);
  for (const Node& node : nodes_) {
    add(node, in_test(), layers::Phase::kTrain);
    activations += node.output.count();
  }
  for (const Node& node : in_test().nodes_)
    if (!index_of(node.definition->name)) add(node, *this, layers::Phase::kTest);
  const auto bytes = static_cast<int64_t>(sizeof(float));
  return {{"name", name_},
          {"parameters", parameter_count()},
          {"layers", std::move(layers)},
          {"activation_bytes", activations * bytes},
          {"parameter_bytes", parameter_count() * bytes}};
}

}  // namespace poseidon::net
