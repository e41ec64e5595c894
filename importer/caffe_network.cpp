#include "importer/caffe_network.h"

#include <algorithm>
#include <array>
#include <map>

#include "core/error.h"
#include "core/json.h"

namespace poseidon::importer {

namespace {

const std::vector<std::string> kPhases{"TRAIN", "TEST"};

struct V1Type {
  const char* word;
  const char* number;
  const char* type;
};

/// The layer types of the V1 format, with their numbers and their names in the current format.
constexpr std::array kV1Types{
    V1Type{"ABSVAL", "35", "AbsVal"},
    V1Type{"ACCURACY", "1", "Accuracy"},
    V1Type{"ARGMAX", "30", "ArgMax"},
    V1Type{"BNLL", "2", "BNLL"},
    V1Type{"CONCAT", "3", "Concat"},
    V1Type{"CONTRASTIVE_LOSS", "37", "ContrastiveLoss"},
    V1Type{"CONVOLUTION", "4", "Convolution"},
    V1Type{"DATA", "5", "Data"},
    V1Type{"DECONVOLUTION", "39", "Deconvolution"},
    V1Type{"DROPOUT", "6", "Dropout"},
    V1Type{"DUMMY_DATA", "32", "DummyData"},
    V1Type{"ELTWISE", "25", "Eltwise"},
    V1Type{"EUCLIDEAN_LOSS", "7", "EuclideanLoss"},
    V1Type{"EXP", "38", "Exp"},
    V1Type{"FLATTEN", "8", "Flatten"},
    V1Type{"HDF5_DATA", "9", "HDF5Data"},
    V1Type{"HDF5_OUTPUT", "10", "HDF5Output"},
    V1Type{"HINGE_LOSS", "28", "HingeLoss"},
    V1Type{"IM2COL", "11", "Im2col"},
    V1Type{"IMAGE_DATA", "12", "ImageData"},
    V1Type{"INFOGAIN_LOSS", "13", "InfogainLoss"},
    V1Type{"INNER_PRODUCT", "14", "InnerProduct"},
    V1Type{"LRN", "15", "LRN"},
    V1Type{"MEMORY_DATA", "29", "MemoryData"},
    V1Type{"MULTINOMIAL_LOGISTIC_LOSS", "16", "MultinomialLogisticLoss"},
    V1Type{"MVN", "34", "MVN"},
    V1Type{"POOLING", "17", "Pooling"},
    V1Type{"POWER", "26", "Power"},
    V1Type{"RELU", "18", "ReLU"},
    V1Type{"SIGMOID", "19", "Sigmoid"},
    V1Type{"SIGMOID_CROSS_ENTROPY_LOSS", "27", "SigmoidCrossEntropyLoss"},
    V1Type{"SILENCE", "36", "Silence"},
    V1Type{"SLICE", "33", "Slice"},
    V1Type{"SOFTMAX", "20", "Softmax"},
    V1Type{"SOFTMAX_LOSS", "21", "SoftmaxWithLoss"},
    V1Type{"SPLIT", "22", "Split"},
    V1Type{"TANH", "23", "TanH"},
    V1Type{"THRESHOLD", "31", "Threshold"},
    V1Type{"WINDOW_DATA", "24", "WindowData"},
};

std::string type_of_v1(const MessageReader& message) {
  const std::vector<std::string> given = message.words("type");
  if (given.size() != 1)
    fail_at(message.place_of("type"), text("expected one \"type\" of a layer, got ", given.size()));
  std::vector<std::string> words;
  for (const V1Type& known : kV1Types) {
    if (given[0] == known.word || given[0] == known.number) return known.type;
    words.push_back(known.word);
  }
  fail_at(message.place_of("type"), "expected a layer type such as CONVOLUTION, got " + given[0] +
                                        suggestion(given[0], words));
}

std::string required_text(const MessageReader& message, std::string_view name) {
  const std::optional<std::string> value = message.text(name);
  if (!value || value->empty())
    fail_at(message.place_of(name), text("a layer needs a \"", name, "\""));
  return *value;
}

CaffeParam param_of(const MessageReader& message) {
  message.mark_as_read({"share_mode"});
  CaffeParam param;
  param.name = message.text("name").value_or("");
  param.rate = message.number("lr_mult").value_or(1);
  param.decay = message.number("decay_mult").value_or(1);
  return param;
}

/// Reads the V1 fields param, blobs_lr and weight_decay. Each lists values for the first tensors,
/// or for all.
std::vector<CaffeParam> params_of_v1(const MessageReader& message) {
  const std::vector<double> rates = message.numbers("blobs_lr");
  const std::vector<double> decays = message.numbers("weight_decay");
  const std::vector<std::string> names = message.texts("param");
  std::vector<CaffeParam> params(std::max({names.size(), rates.size(), decays.size()}));
  for (size_t i = 0; i < names.size(); ++i) params[i].name = names[i];
  for (size_t i = 0; i < rates.size(); ++i) params[i].rate = rates[i];
  for (size_t i = 0; i < decays.size(); ++i) params[i].decay = decays[i];
  return params;
}

}  // namespace

bool CaffeLayer::is_data_layer() const {
  static constexpr std::array kTypes{"Data",      "ImageData",  "HDF5Data", "MemoryData",
                                     "DummyData", "WindowData", "Input"};
  return std::ranges::find(kTypes, type) != kTypes.end();
}

std::string CaffeLayer::shown() const { return text("layer \"", name, "\" (", type, ")"); }

CaffeNetwork::CaffeNetwork(std::string_view content, const std::string& file)
    : root_(std::make_unique<TextMessage>(parse_text_message(content, file))),
      top_(root_.get(), {file, {}}) {
  name_ = top_.text("name").value_or("");
  top_.mark_as_read({"force_backward", "debug_info"});
  read_state();
  read_inputs();
  read_layers();
}

void CaffeNetwork::read_state() {
  const MessageReader state = top_.message("state");
  state.mark_as_read({"phase"});
  level_ = state.integer("level").value_or(0);
  stages_ = state.texts("stage");
}

void CaffeNetwork::read_inputs() {
  for (const std::string& name : top_.texts("input")) inputs_.push_back({name, {}});
  const std::vector<MessageReader> shapes = top_.messages("input_shape");
  const std::vector<int64_t> extents = top_.integers("input_dim", kExtent);
  for (size_t i = 0; i < shapes.size() && i < inputs_.size(); ++i)
    inputs_[i].extents = shapes[i].integers("dim", kExtent);
  if (!extents.empty() && !shapes.empty())
    fail_at(top_.place_of("input_dim"), "\"input_dim\" and \"input_shape\" exclude each other");
  if (!extents.empty() && extents.size() != 4 * inputs_.size())
    fail_at(top_.place_of("input_dim"), text("expected four \"input_dim\" for each of ",
                                             inputs_.size(), " inputs, got ", extents.size()));
  for (size_t i = 0; i < extents.size(); ++i) inputs_[i / 4].extents.push_back(extents[i]);
}

void CaffeNetwork::read_layers() {
  if (top_.has("layer") && top_.has("layers"))
    fail_at(top_.place_of("layers"),
            "expected either \"layer\" or \"layers\", got both in one file");
  for (const MessageReader& message : top_.messages("layer"))
    layers_.push_back(read_layer(message));
  for (const MessageReader& message : top_.messages("layers"))
    layers_.push_back(read_v1_layer(message));
  if (layers_.empty()) fail_at(top_.place(), "expected at least one \"layer\", got none");
}

CaffeLayer CaffeNetwork::read_layer(const MessageReader& message) const {
  CaffeLayer layer{.name = required_text(message, "name"),
                   .type = required_text(message, "type"),
                   .message = message};
  for (const MessageReader& param : message.messages("param"))
    layer.params.push_back(param_of(param));
  message.mark_as_read({"phase"});
  read_common(layer);
  return layer;
}

CaffeLayer CaffeNetwork::read_v1_layer(const MessageReader& message) const {
  if (message.has("layer"))
    fail_at(message.place_of("layer"),
            "expected a layer of V1 or newer, got V0 (convert the file with Caffe's tool "
            "upgrade_net_proto_text)");
  CaffeLayer layer{
      .name = required_text(message, "name"), .type = type_of_v1(message), .message = message};
  message.mark_as_read({"blob_share_mode"});
  layer.params = params_of_v1(message);
  read_common(layer);
  return layer;
}

void CaffeNetwork::read_common(CaffeLayer& layer) const {
  layer.bottoms = layer.message.texts("bottom");
  layer.tops = layer.message.texts("top");
  layer.loss_weights = layer.message.numbers("loss_weight");
  layer.in_training = takes_part(layer.message, "TRAIN");
  layer.in_testing = takes_part(layer.message, "TEST");
}

bool CaffeNetwork::takes_part(const MessageReader& layer, const std::string& phase) const {
  const std::vector<MessageReader> include = layer.messages("include");
  const std::vector<MessageReader> exclude = layer.messages("exclude");
  if (!include.empty() && !exclude.empty())
    fail_at(layer.place_of("exclude"), "\"include\" and \"exclude\" exclude each other");
  const auto is_met = [&](const MessageReader& rule) { return meets(rule, phase); };
  return include.empty() ? std::ranges::none_of(exclude, is_met)
                         : std::ranges::any_of(include, is_met);
}

/// Returns true if the rule ("include" or "exclude") matches the phase, and the level and stages in
/// the network's state.
bool CaffeNetwork::meets(const MessageReader& rule, const std::string& phase) const {
  const auto is_set = [&](const std::string& stage) {
    return std::ranges::find(stages_, stage) != stages_.end();
  };
  const bool in_phase = rule.word("phase", kPhases).value_or(phase) == phase;
  const bool in_level = rule.integer("min_level").value_or(level_) <= level_ &&
                        rule.integer("max_level").value_or(level_) >= level_;
  const bool in_stages = std::ranges::all_of(rule.texts("stage"), is_set);
  const bool in_others = std::ranges::any_of(rule.texts("not_stage"), is_set);
  return in_phase && in_level && in_stages && !in_others;
}

}  // namespace poseidon::importer
