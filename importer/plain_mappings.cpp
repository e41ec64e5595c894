#include <array>
#include <cmath>

#include "core/error.h"
#include "importer/layer_mapping.h"

namespace poseidon::importer {

namespace {

/// A numeric field of Caffe and the corresponding Poseidon key.
struct NumberKey {
  const char* field;
  const char* key;
};

MappedLayer map_numbers(const char* type, const MessageReader& from,
                        std::initializer_list<NumberKey> numbers) {
  Json keys{{"type", type}};
  for (const NumberKey& number : numbers) put_number(keys, number.key, from, number.field);
  from.mark_as_read({"engine"});
  return {.keys = keys};
}

MappedLayer map_absval(const CaffeLayer&, Remarks&) { return {.keys = {{"type", "absval"}}}; }
MappedLayer map_bnll(const CaffeLayer&, Remarks&) { return {.keys = {{"type", "bnll"}}}; }
MappedLayer map_accuracy(const CaffeLayer& layer, Remarks&) {
  Json keys{{"type", "accuracy"}};
  const MessageReader from = layer.message.message("accuracy_param");
  if (const auto best = from.integer("top_k", {.least = 1, .most = 1 << 20}); best && *best != 1)
    keys["top_k"] = Json::array({*best});
  return {.keys = keys};
}

MappedLayer map_silence(const CaffeLayer&, Remarks&) { return {.keys = {{"type", "silence"}}}; }

MappedLayer map_relu(const CaffeLayer& layer, Remarks&) {
  return map_numbers("relu", layer.message.message("relu_param"), {{"negative_slope", "slope"}});
}
MappedLayer map_sigmoid(const CaffeLayer& layer, Remarks&) {
  return map_numbers("sigmoid", layer.message.message("sigmoid_param"), {});
}
MappedLayer map_tanh(const CaffeLayer& layer, Remarks&) {
  return map_numbers("tanh", layer.message.message("tanh_param"), {});
}
MappedLayer map_elu(const CaffeLayer& layer, Remarks&) {
  return map_numbers("elu", layer.message.message("elu_param"), {{"alpha", "alpha"}});
}
MappedLayer map_swish(const CaffeLayer& layer, Remarks&) {
  return map_numbers("swish", layer.message.message("swish_param"), {{"beta", "beta"}});
}
MappedLayer map_threshold(const CaffeLayer& layer, Remarks&) {
  return map_numbers("threshold", layer.message.message("threshold_param"),
                     {{"threshold", "threshold"}});
}
MappedLayer map_clip(const CaffeLayer& layer, Remarks&) {
  return map_numbers("clip", layer.message.message("clip_param"),
                     {{"min", "minimum"}, {"max", "maximum"}});
}
MappedLayer map_power(const CaffeLayer& layer, Remarks&) {
  return map_numbers("power", layer.message.message("power_param"),
                     {{"power", "power"}, {"scale", "scale"}, {"shift", "shift"}});
}

/// Maps a layer with the field "base". In Caffe, a base of -1 means e, which is Poseidon's default.
MappedLayer map_with_base(const char* type, const MessageReader& from) {
  MappedLayer mapped =
      map_numbers(type, from, {{"base", "base"}, {"scale", "scale"}, {"shift", "shift"}});
  if (mapped.keys.contains("base") && mapped.keys["base"] == -1) mapped.keys.erase("base");
  return mapped;
}
MappedLayer map_exp(const CaffeLayer& layer, Remarks&) {
  return map_with_base("exp", layer.message.message("exp_param"));
}
MappedLayer map_log(const CaffeLayer& layer, Remarks&) {
  return map_with_base("log", layer.message.message("log_param"));
}

MappedLayer map_mvn(const CaffeLayer& layer, Remarks&) {
  const MessageReader from = layer.message.message("mvn_param");
  MappedLayer mapped = map_numbers("mvn", from, {{"eps", "epsilon"}});
  if (from.boolean("across_channels").value_or(false)) mapped.keys["across_channels"] = true;
  if (!from.boolean("normalize_variance").value_or(true)) mapped.keys["variance"] = false;
  return mapped;
}

MappedLayer map_dropout(const CaffeLayer& layer, Remarks&) {
  return map_numbers("dropout", layer.message.message("dropout_param"),
                     {{"dropout_ratio", "probability"}});
}

/// Maps local response normalization. Within a channel, Caffe ignores "k" and uses 1, which is
/// Poseidon's default.
MappedLayer map_lrn(const CaffeLayer& layer, Remarks&) {
  const MessageReader from = layer.message.message("lrn_param");
  MappedLayer mapped = map_numbers("lrn", from, {{"alpha", "alpha"}, {"beta", "beta"}, {"k", "k"}});
  if (const auto size = from.integer("local_size", kExtent)) mapped.keys["size"] = *size;
  if (from.word("norm_region", {"ACROSS_CHANNELS", "WITHIN_CHANNEL"}) == "WITHIN_CHANNEL") {
    mapped.keys["region"] = "within_channel";
    mapped.keys.erase("k");
  }
  return mapped;
}

/// Caffe rounds the number of windows up by default, as Poseidon does.
MappedLayer map_pooling(const CaffeLayer& layer, Remarks& remarks) {
  static constexpr std::array kMethods{"max", "average", "stochastic"};
  const MessageReader from = layer.message.message("pooling_param");
  Json keys{{"type", "pooling"}};
  const std::string method = from.word("pool", {"MAX", "AVE", "STOCHASTIC"}).value_or("MAX");
  keys["method"] = kMethods[method == "MAX" ? 0 : method == "AVE" ? 1 : 2];
  const auto put = [&](const char* key, const Json& value) {
    if (!value.is_null()) keys[key] = value;
  };
  put("kernel", pair_of(from, "kernel_size", "kernel_h", "kernel_w", remarks));
  put("stride", pair_of(from, "stride", "stride_h", "stride_w", remarks));
  put("padding", pair_of(from, "pad", "pad_h", "pad_w", remarks));
  if (from.boolean("global_pooling").value_or(false)) keys["global"] = true;
  if (from.word("round_mode", {"CEIL", "FLOOR"}) == "FLOOR" ||
      !from.boolean("ceil_mode").value_or(true))
    keys["rounding"] = "floor";
  from.mark_as_read({"engine"});
  return {.keys = keys};
}

MappedLayer map_concat(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("concat_param");
  for (const char* field : {"axis", "concat_dim"})
    expect_integer(from, field, 1, "Poseidon concatenates along the channels", remarks);
  return {.keys = {{"type", "concat"}}};
}

MappedLayer map_eltwise(const CaffeLayer& layer, Remarks&) {
  const MessageReader from = layer.message.message("eltwise_param");
  const std::string operation = from.word("operation", {"PROD", "SUM", "MAX"}).value_or("SUM");
  const std::vector<double> factors = from.numbers("coeff");
  if (!factors.empty() && (operation != "SUM" || factors.size() != layer.bottoms.size()))
    fail_at(from.place_of("coeff"),
            text("\"coeff\": expected one for each of the ", layer.bottoms.size(),
                 " inputs of a SUM, got ", factors.size(), " of a ", operation));
  from.mark_as_read({"stable_prod_grad"});
  const char* const name = operation == "PROD" ? "product" : operation == "SUM" ? "sum" : "maximum";
  return {.keys = {{"type", "eltwise"}, {"operation", name}}, .input_factors = factors};
}

MappedLayer map_flatten(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("flatten_param");
  expect_integer(from, "axis", 1, "Poseidon flattens the whole sample", remarks);
  expect_integer(from, "end_axis", -1, "Poseidon flattens the whole sample", remarks);
  return {.keys = {{"type", "flatten"}}};
}

MappedLayer map_softmax(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("softmax_param");
  expect_integer(from, "axis", 1, "the classes are the channels", remarks);
  from.mark_as_read({"engine"});
  return {.keys = {{"type", "softmax"}}};
}

/// Caffe's shape includes the batch axis; Poseidon's shape does not.
MappedLayer map_reshape(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("reshape_param");
  const MessageReader shape = from.message("shape");
  std::vector<int64_t> extents = shape.integers("dim", {.least = -1, .most = kExtent.most});
  expect_integer(from, "num_axes", -1, "Poseidon reshapes all axes after the batch axis", remarks);
  const int64_t axis = from.integer("axis").value_or(0);
  if (axis == 0 && !extents.empty()) {
    if (extents[0] != 0)
      remarks.refuse(shape.place(), text("\"shape\": expected 0 for the batch axis, got ",
                                         extents[0], ": a reshape keeps the batch"));
    extents.erase(extents.begin());
  } else if (axis != 1) {
    remarks.refuse(from.place_of("axis"), text("\"axis\": expected 0 or 1, got ", axis));
  }
  return {.keys = {{"type", "reshape"}, {"shape", extents}}};
}

MappedLayer map_reduction(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("reduction_param");
  const std::string operation =
      from.word("operation", {"", "SUM", "ASUM", "SUMSQ", "MEAN"}).value_or("SUM");
  if (from.integer("axis").value_or(0) != 1)
    remarks.refuse(from.place_of("axis"),
                   "\"axis\": expected 1: Poseidon reduces each sample separately");
  MappedLayer mapped = map_numbers("reduction", from, {{"coeff", "coefficient"}});
  mapped.keys["operation"] = operation == "SUM"     ? "sum"
                             : operation == "ASUM"  ? "asum"
                             : operation == "SUMSQ" ? "sumsq"
                                                    : "mean";
  return mapped;
}

MappedLayer map_tile(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("tile_param");
  expect_integer(from, "axis", 1, "Poseidon concatenates the copies along the channels", remarks);
  Json keys{{"type", "tile"}};
  if (const auto tiles = from.integer("tiles", kExtent)) keys["tiles"] = *tiles;
  return {.keys = keys};
}

MappedLayer map_crop(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("crop_param");
  expect_integer(from, "axis", 2, "Poseidon crops height and width", remarks);
  std::vector<int64_t> offsets = from.integers("offset", kExtent);
  if (offsets.empty()) offsets = {0};
  if (offsets.size() == 1) offsets.push_back(offsets[0]);
  return {.keys = {{"type", "crop"}, {"offset", offsets}}};
}

MappedLayer map_argmax(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("argmax_param");
  if (from.integer("axis"))
    remarks.refuse(from.place_of("axis"),
                   "\"axis\": not supported: Poseidon's argmax is over the whole sample");
  Json keys{{"type", "argmax"}};
  if (const auto top = from.integer("top_k", kExtent)) keys["top_k"] = *top;
  if (from.boolean("out_max_val").value_or(false)) keys["values"] = true;
  return {.keys = keys};
}

constexpr std::array kPlainMappings{
    LayerMappingEntry{"AbsVal", map_absval},
    LayerMappingEntry{"Accuracy", map_accuracy},
    LayerMappingEntry{"ArgMax", map_argmax},
    LayerMappingEntry{"BNLL", map_bnll},
    LayerMappingEntry{"Clip", map_clip},
    LayerMappingEntry{"Concat", map_concat},
    LayerMappingEntry{"Crop", map_crop},
    LayerMappingEntry{"Dropout", map_dropout},
    LayerMappingEntry{"ELU", map_elu},
    LayerMappingEntry{"Eltwise", map_eltwise},
    LayerMappingEntry{"Exp", map_exp},
    LayerMappingEntry{"Flatten", map_flatten},
    LayerMappingEntry{"LRN", map_lrn},
    LayerMappingEntry{"Log", map_log},
    LayerMappingEntry{"MVN", map_mvn},
    LayerMappingEntry{"Pooling", map_pooling},
    LayerMappingEntry{"Power", map_power},
    LayerMappingEntry{"ReLU", map_relu},
    LayerMappingEntry{"Reduction", map_reduction},
    LayerMappingEntry{"Reshape", map_reshape},
    LayerMappingEntry{"Sigmoid", map_sigmoid},
    LayerMappingEntry{"Silence", map_silence},
    LayerMappingEntry{"Softmax", map_softmax},
    LayerMappingEntry{"Swish", map_swish},
    LayerMappingEntry{"TanH", map_tanh},
    LayerMappingEntry{"Threshold", map_threshold},
    LayerMappingEntry{"Tile", map_tile},
};

}  // namespace

std::span<const LayerMappingEntry> plain_mappings() { return kPlainMappings; }

}  // namespace poseidon::importer
