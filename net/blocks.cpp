#include "net/blocks.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/fields.h"

namespace poseidon::net {

namespace {

constexpr size_t kMaxLayers = 100000;
constexpr size_t kMaxNested = 8;

struct Block {
  Json parameters = Json::object();  ///< by name: default; null: each use must set the value
  Json layers = Json::array();
  JsonPath place;
};

/// The values of a block's parameters in one use of the block.
using BlockValues = std::map<std::string, Json>;

std::string name_of(const Json& layer, const JsonPath& place) {
  if (!layer.is_object()) fail_at(place, "expected an object, got " + shown(layer));
  if (!layer.contains("name")) fail_at(place, "\"name\" is missing");
  const Json& name = layer["name"];
  if (!name.is_string() || name.get<std::string>().empty())
    fail_at(place.at("name"), "expected a non-empty string, got " + shown(name));
  const auto out = name.get<std::string>();
  if (out == kInputName)
    fail_at(place.at("name"), "\"input\" is reserved for the input of the network or block");
  if (out == kLabelName) fail_at(place.at("name"), "\"label\" is reserved for the samples' labels");
  if (out.find('.') != std::string::npos)
    fail_at(place.at("name"), "a name must not contain \".\", got " + shown(name));
  return out;
}

/// The value of one operand of a product such as "$planes * 4": a parameter's value or an integer.
Json factor_value(std::string factor, const BlockValues& values, const JsonPath& place) {
  std::erase(factor, ' ');
  if (factor.starts_with("$")) {
    const auto found = values.find(factor.substr(1));
    if (found != values.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [name, value] : values) names.push_back(name);
    fail_at(place, "the block has no parameter \"" + factor.substr(1) + "\"" +
                       suggestion(factor.substr(1), names));
  }
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(factor.data(), factor.data() + factor.size(), number);
  if (failure != std::errc() || end != factor.data() + factor.size())
    fail_at(place, "expected \"$parameter\" or an integer, got " + shown(Json(factor)));
  return number;
}

/// Evaluates an expression: "$name" is the parameter's value, "$name * 4" a product of integers.
Json evaluate(const std::string& expression, const BlockValues& values, const JsonPath& place) {
  const size_t star = expression.find('*');
  if (star == std::string::npos) return factor_value(expression, values, place);
  int64_t product = 1;
  for (size_t start = 0; start <= expression.size();) {
    const size_t end = std::min(expression.find('*', start), expression.size());
    const Json value = factor_value(expression.substr(start, end - start), values, place);
    if (!value.is_number_integer())
      fail_at(place, "expected an integer factor, got " + shown(value));
    if (__builtin_mul_overflow(product, value.get<int64_t>(), &product))
      fail_at(place, "the product exceeds 2^63");
    start = end + 1;
  }
  return product;
}

Json substituted(const Json& json, const BlockValues& values, const JsonPath& place) {
  if (json.is_string() && json.get<std::string>().starts_with("$"))
    return evaluate(json.get<std::string>(), values, place);
  if (!json.is_structured()) return json;
  Json out = json;
  for (auto& [key, value] : out.items()) value = substituted(value, values, place.at(key));
  return out;
}

/// The only phase of a layer; none if it is in both phases.
std::optional<layers::Phase> phase_of(const Json& layer, const JsonPath& place) {
  const int both = static_cast<int>(phase_names().size()) - 1;
  int index = both;
  FieldReader(layer, place).choice("phase", index, phase_names(), "", Presence::kOptional);
  if (index == both) return std::nullopt;
  return static_cast<layers::Phase>(index);
}

class Expander {
 public:
  Expander(const Json& network, const std::string& file, layers::Phase phase,
           std::span<const AuxiliaryInput> extras)
      : file_(file), phase_(phase), outside_{kInputName, kLabelName} {
    for (const AuxiliaryInput& extra : extras) outside_.push_back(extra.name);
    const JsonPath top{file, ""};
    if (network.contains("blocks")) read_blocks(network["blocks"], top.at("blocks"));
    if (network.contains("defaults")) read_defaults(network["defaults"], top.at("defaults"));
    if (!network.contains("layers")) fail_at(top, "\"layers\" is missing");
    const Scope scope{
        .prefix = "", .input = kInputName, .shares = "", .values = {}, .phase = {}, .depth = 0};
    expand(network["layers"], top.at("layers"), scope);
    if (entries_.empty())
      fail_at(top.at("layers"), "a network needs at least one layer" + in_phase());
  }

  std::vector<LayerEntry> take() {
    for (LayerEntry& entry : entries_)
      for (std::string& input : entry.inputs) input = output_of(input);
    return std::move(entries_);
  }

 private:
  /// The context in which a list of layers is expanded: the top level, or one use of a block.
  struct Scope {
    std::string prefix;  ///< prefix of the full names of the layers
    std::string input;   ///< full name of the layer that "input" denotes
    std::string shares;  ///< prefix of the layers whose parameters these layers share; "": none
    BlockValues values;
    std::optional<layers::Phase> phase;  ///< the only phase of this use of the block; none: both
    size_t depth;
  };

  /// One layer of a list, after the substitution of the block's parameters.
  struct Listed {
    Json json;
    JsonPath place;
  };

  /// The layers of a list: those in the current phase, and the names of all others.
  struct Listing {
    std::vector<Listed> layers;
    std::set<std::string> names;  ///< names of `layers`; a layer may also reference later layers
    std::set<std::string> elsewhere;  ///< names of the layers that are only in the other phase
  };

  void read_blocks(const Json& blocks, const JsonPath& place) {
    if (!blocks.is_object()) fail_at(place, "expected an object, got " + shown(blocks));
    for (const auto& [name, json] : blocks.items()) {
      Block block;
      block.place = place.at(name);
      read_fields(json, block.place, [&](Fields& fields) {
        fields.raw("parameters", block.parameters, "names with their defaults; null: required");
        fields.raw("layers", block.layers, "the layers", Presence::kRequired);
      });
      if (!block.layers.is_array() || block.layers.empty())
        fail_at(block.place.at("layers"), "expected a list of at least one layer");
      if (!block.parameters.is_object())
        fail_at(block.place.at("parameters"), "expected an object");
      blocks_[name] = std::move(block);
    }
  }

  void read_defaults(const Json& defaults, const JsonPath& place) {
    if (!defaults.is_object()) fail_at(place, "expected an object, got " + shown(defaults));
    for (const auto& [type, fields] : defaults.items()) {
      if (!fields.is_object()) fail_at(place.at(type), "expected an object, got " + shown(fields));
      defaults_[type] = fields;
    }
  }

  /// Expands a list of layers. Returns the full name of the last layer in the current phase. The
  /// output of this layer is the output of a block. If the list has no layer in this phase, returns
  /// the name of the input.
  std::string expand(const Json& layers, const JsonPath& place, const Scope& scope) {
    if (!layers.is_array()) fail_at(place, "expected a list of layers, got " + shown(layers));
    if (scope.depth > kMaxNested)
      fail_at(place, text("blocks are nested deeper than ", kMaxNested, " levels"));
    Listing listing = listing_of(layers, place, scope);
    std::string previous = scope.input;
    for (Listed& layer : listing.layers)
      previous = add(std::move(layer.json), layer.place, scope, listing, previous);
    return previous;
  }

  Listing listing_of(const Json& layers, const JsonPath& place, const Scope& scope) const {
    Listing listing;
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::string name = name_of(layers[i], place.at(i));
      if (comes_from_outside(name))
        fail_at(place.at(i).at("name"), "\"" + name + "\" is the name of an input of the network");
      Json layer = substituted(layers[i], scope.values, place.at(i));
      if (!takes_part(layer, place.at(i), scope)) {
        listing.elsewhere.insert(name);
        continue;
      }
      if (!listing.names.insert(name).second)
        fail_at(place.at(i).at("name"), "the name \"" + name + "\" is used twice" + in_phase());
      listing.layers.push_back({std::move(layer), place.at(i)});
    }
    return listing;
  }

  bool takes_part(const Json& layer, const JsonPath& place, const Scope& scope) const {
    const std::optional<layers::Phase> own = phase_of(layer, place);
    if (own && scope.phase && *own != *scope.phase)
      fail_at(place.at("phase"),
              text("expected \"", net::name_of(*scope.phase),
                   "\" (the phase of the layer that uses the block) or no \"phase\", got ",
                   shown(layer["phase"])));
    return own.value_or(phase_) == phase_;
  }

  /// Returns the full name of the layer or input that `name` denotes. The name of a use of a block
  /// denotes the block's last layer. If the block has no layer in this phase, the name denotes the
  /// block's input, which may be another use of a block.
  std::string output_of(std::string name) const {
    for (auto found = last_layer_.find(name); found != last_layer_.end();
         found = last_layer_.find(name))
      name = found->second;
    return name;
  }

  std::string add(Json layer, const JsonPath& place, const Scope& scope, const Listing& known,
                  const std::string& previous) {
    const std::string full = scope.prefix + name_of(layer, place);
    const std::vector<std::string> inputs = inputs_of(layer, place, scope, known, previous);
    const std::string shares = shares_of(layer, place, scope, known);
    const std::optional<layers::Phase> own = phase_of(layer, place);
    for (const char* key : {"name", "input", "inputs", "shares", "phase"}) layer.erase(key);
    if (!layer.contains("type")) fail_at(place, "\"type\" is missing");
    if (layer["type"] == "block")
      return add_block(layer, place, scope, {full, shares, inputs, own ? own : scope.phase});
    if (entries_.size() >= kMaxLayers)
      fail_at(place, text("expected at most ", kMaxLayers, " layers"));
    std::vector<std::string> defaulted = add_defaults(layer);
    entries_.push_back({std::move(layer), place, full, inputs, shares, std::move(defaulted)});
    return full;
  }

  /// Returns the full name of the layer with which `layer` shares parameters; "": none. If a use of
  /// a block shares with another use, each layer shares with the layer of the same name in the
  /// other use. The key "shares" of a layer in the block takes precedence.
  std::string shares_of(const Json& layer, const JsonPath& place, const Scope& scope,
                        const Listing& known) const {
    std::string name;
    FieldReader reader(layer, place);
    reader.text("shares", name, "", Presence::kOptional);
    if (name.empty())
      return scope.shares.empty() ? "" : scope.shares + layer["name"].get<std::string>();
    if (!known.names.contains(name)) fail_to_find(name, place.at("shares"), known, {});
    return scope.prefix + name;
  }

  /// Throws ConfigError: the layer `name` is not in this phase, or does not exist.
  [[noreturn]] void fail_to_find(const std::string& name, const JsonPath& place,
                                 const Listing& known, std::vector<std::string> candidates) const {
    if (known.elsewhere.contains(name))
      fail_at(place, text("\"", name, "\" is not in phase \"", net::name_of(phase_),
                          "\", but this layer is"));
    candidates.insert(candidates.begin(), known.names.begin(), known.names.end());
    fail_at(place, "no layer is named \"" + name + "\"" + suggestion(name, candidates));
  }

  /// Returns the phase as a suffix of a message; "" in training, because most networks do not use
  /// phases.
  std::string in_phase() const {
    return phase_ == layers::Phase::kTrain ? "" : " in phase \"" + net::name_of(phase_) + "\"";
  }

  /// Adds the defaults of the layer's type for keys that the layer does not set. Returns the added
  /// keys.
  std::vector<std::string> add_defaults(Json& layer) const {
    std::vector<std::string> added;
    if (!layer["type"].is_string()) return added;
    const auto found = defaults_.find(layer["type"].get<std::string>());
    if (found == defaults_.end()) return added;
    for (const auto& [key, value] : found->second.items()) {
      if (layer.contains(key)) continue;
      layer[key] = value;
      added.push_back(key);
    }
    return added;
  }

  std::vector<std::string> inputs_of(const Json& layer, const JsonPath& place, const Scope& scope,
                                     const Listing& known, const std::string& previous) const {
    std::vector<std::string> names;
    FieldReader reader(layer, place);
    if (reader.has("input") && reader.has("inputs"))
      fail_at(place, "\"input\" and \"inputs\" exclude each other");
    reader.texts("input", names, "", Presence::kOptional);
    reader.texts("inputs", names, "", Presence::kOptional);
    if (!reader.has("input") && !reader.has("inputs")) return {previous};
    const JsonPath at = place.at(reader.has("input") ? "input" : "inputs");
    if (names.empty()) fail_at(at, "expected at least one name");
    std::vector<std::string> full;
    for (const std::string& name : names) {
      if (!comes_from_outside(name) && !known.names.contains(name))
        fail_to_find(name, at, known, outside_);
      full.push_back(full_name(name, scope));
    }
    return full;
  }

  bool comes_from_outside(const std::string& name) const {
    return std::ranges::find(outside_, name) != outside_.end();
  }

  std::string full_name(const std::string& name, const Scope& scope) const {
    if (name == kInputName) return scope.input;
    return comes_from_outside(name) ? name : scope.prefix + name;
  }

  /// Full names of a layer, of the layer with which it shares parameters, and of its inputs.
  struct Names {
    std::string own, shares;
    std::vector<std::string> inputs;
    std::optional<layers::Phase> phase;  ///< the only phase of the layer; none: both
  };

  std::string add_block(const Json& layer, const JsonPath& place, const Scope& scope,
                        const Names& names) {
    std::string name, type;
    Json with = Json::object();
    int64_t repeat = 1;
    read_fields(layer, place, [&](Fields& fields) {
      fields.text("type", type, "");
      fields.text("block", name, "name of the block", Presence::kRequired);
      fields.raw("with", with, "values of the block's parameters");
      fields.integer("repeat", repeat, between(1, 10000), "number of copies, one after another");
    });
    if (names.inputs.size() != 1) fail_at(place, "expected exactly one input for a block");
    const Block& block = find_block(name, place);
    Scope inner{.prefix = "",
                .input = names.inputs[0],
                .shares = "",
                .values = values_for(block, with, place),
                .phase = names.phase,
                .depth = scope.depth + 1};
    for (int64_t i = 0; i < repeat; ++i) {
      const std::string number = layer.contains("repeat") ? "." + std::to_string(i) + "." : ".";
      inner.prefix = names.own + number;
      if (!names.shares.empty()) inner.shares = names.shares + number;
      inner.input = expand(block.layers, block.place.at("layers"), inner);
    }
    last_layer_[names.own] = inner.input;
    return inner.input;
  }

  const Block& find_block(const std::string& name, const JsonPath& place) const {
    const auto found = blocks_.find(name);
    if (found != blocks_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, block] : blocks_) names.push_back(known);
    fail_at(place.at("block"), "no block is named \"" + name + "\"" + suggestion(name, names));
  }

  static BlockValues values_for(const Block& block, const Json& with, const JsonPath& place) {
    if (!with.is_object()) fail_at(place.at("with"), "expected an object, got " + shown(with));
    BlockValues values;
    std::vector<std::string> names;
    for (const auto& [name, value] : block.parameters.items()) {
      values[name] = value;
      names.push_back(name);
    }
    for (const auto& [name, value] : with.items()) {
      if (!values.contains(name))
        fail_at(place.at("with").at(name), "unknown parameter" + suggestion(name, names));
      values[name] = value;
    }
    for (const auto& [name, value] : values)
      if (value.is_null())
        fail_at(place.at("with"), "the parameter \"" + name + "\" has no default and is missing");
    return values;
  }

  std::string file_;
  layers::Phase phase_;
  std::vector<std::string> outside_;  ///< names of external inputs, valid in every scope
  std::map<std::string, Block> blocks_;
  std::map<std::string, Json> defaults_;
  std::vector<LayerEntry> entries_;
  std::map<std::string, std::string> last_layer_;  ///< by full name of a use of a block
};

}  // namespace

const std::vector<std::string>& phase_names() {
  static const std::vector<std::string> kNames{"train", "test", "both"};
  return kNames;
}

const std::string& name_of(layers::Phase phase) {
  return phase_names()[static_cast<size_t>(phase)];
}

std::vector<LayerEntry> expand_layers(const Json& network, const std::string& file,
                                      layers::Phase phase, std::span<const AuxiliaryInput> extras) {
  return Expander(network, file, phase, extras).take();
}

}  // namespace poseidon::net
