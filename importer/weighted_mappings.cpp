#include <array>

#include "core/error.h"
#include "importer/layer_mapping.h"

namespace poseidon::importer {

namespace {

void put_pair(Json& keys, const char* key, const Json& value) {
  if (!value.is_null()) keys[key] = value;
}

void put_fillers(Json& keys, const MessageReader& from, bool bias, Remarks& remarks) {
  keys["weight_filler"] = filler_of(from, "weight_filler", 0, remarks);
  const Json filler = filler_of(from, "bias_filler", 0, remarks);
  const bool is_zero = filler["type"] == "constant" && filler["value"] == 0;  // Poseidon's default
  if (bias && !is_zero) keys["bias_filler"] = filler;
}

int64_t outputs_of(const CaffeLayer& layer, const MessageReader& from) {
  const auto outputs = from.integer("num_output", {.least = 1, .most = kExtent.most});
  if (!outputs) fail_at(from.place(), layer.shown() + " needs a \"num_output\"");
  return *outputs;
}

/// Maps convolution and deconvolution, which have the same fields.
MappedLayer map_windows(const char* type, const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("convolution_param");
  const bool bias = from.boolean("bias_term").value_or(true);
  Json keys{{"type", type}, {"outputs", outputs_of(layer, from)}};
  put_pair(keys, "kernel", pair_of(from, "kernel_size", "kernel_h", "kernel_w", remarks));
  put_pair(keys, "stride", pair_of(from, "stride", "stride_h", "stride_w", remarks));
  put_pair(keys, "padding", pair_of(from, "pad", "pad_h", "pad_w", remarks));
  put_pair(keys, "dilation", pair_of(from, "dilation", "", "", remarks));
  if (const auto groups = from.integer("group", kExtent); groups && *groups != 1)
    keys["groups"] = *groups;
  if (!bias) keys["bias"] = false;
  put_fillers(keys, from, bias, remarks);
  expect_integer(from, "axis", 1, "the channels are axis 1", remarks);
  from.mark_as_read({"engine", "force_nd_im2col"});
  return {.keys = keys, .parameters = bias ? 2 : 1};
}

MappedLayer map_convolution(const CaffeLayer& layer, Remarks& remarks) {
  return map_windows("convolution", layer, remarks);
}

MappedLayer map_deconvolution(const CaffeLayer& layer, Remarks& remarks) {
  return map_windows("deconvolution", layer, remarks);
}

MappedLayer map_inner_product(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("inner_product_param");
  const bool bias = from.boolean("bias_term").value_or(true);
  Json keys{{"type", "linear"}, {"outputs", outputs_of(layer, from)}};
  if (!bias) keys["bias"] = false;
  put_fillers(keys, from, bias, remarks);
  expect_integer(from, "axis", 1, "a linear layer reads the whole sample", remarks);
  from.mark_as_read({"transpose"});  // affects only the layout of the stored weight
  return {.keys = keys, .parameters = bias ? 2 : 1};
}

MappedLayer map_prelu(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("prelu_param");
  Json keys{{"type", "prelu"}};
  if (from.boolean("channel_shared").value_or(false)) keys["shared"] = true;
  if (from.has("filler")) keys["slope_filler"] = filler_of(from, "filler", 0.25, remarks);
  return {.keys = keys, .parameters = 1};
}

void check_channel_axes(const MessageReader& from, Remarks& remarks) {
  expect_integer(from, "axis", 1, "there is one value for each channel", remarks);
  expect_integer(from, "num_axes", 1, "there is one value for each channel", remarks);
}

/// Maps a Scale layer. If it has two inputs, the second input is the factor, and the layer learns
/// no scale.
MappedLayer map_scale(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("scale_param");
  const bool bias = from.boolean("bias_term").value_or(false);
  const bool learns_scale = layer.bottoms.size() < 2;
  Json keys{{"type", "scale"}};
  if (bias) keys["bias"] = true;
  if (from.has("filler")) keys["scale_filler"] = filler_of(from, "filler", 1, remarks);
  if (from.has("bias_filler")) keys["bias_filler"] = filler_of(from, "bias_filler", 0, remarks);
  if (learns_scale)
    check_channel_axes(from, remarks);
  else if (from.integer("axis").value_or(1) != 0)
    remarks.refuse(from.place_of("axis"),
                   "\"axis\": expected 0: the second input has one factor per sample");
  return {.keys = keys, .parameters = (learns_scale ? 1 : 0) + (bias ? 1 : 0)};
}

MappedLayer map_bias(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("bias_param");
  Json keys{{"type", "bias"}};
  if (from.has("filler")) keys["filler"] = filler_of(from, "filler", 0, remarks);
  check_channel_axes(from, remarks);
  return {.keys = keys, .parameters = 1};
}

/// Warns of a value of "use_global_stats" that differs from Poseidon's behavior. Poseidon always
/// uses batch statistics in training and running statistics in testing.
void remark_statistics(const CaffeLayer& layer, const MessageReader& from, Remarks& remarks) {
  const std::optional<bool> running = from.boolean("use_global_stats");
  if (!running) return;
  if (*running && layer.in_training)
    remarks.warn(from.place_of("use_global_stats"),
                 layer.shown() +
                     ": Poseidon normalizes with batch statistics in training, and with running "
                     "statistics in testing only");
  if (!*running && layer.in_testing)
    remarks.warn(from.place_of("use_global_stats"),
                 layer.shown() +
                     ": Caffe tests with the statistics of each batch, Poseidon with running "
                     "statistics: accuracies differ");
}

/// Caffe's BatchNorm has no scale and shift. Therefore Poseidon's scale and shift are frozen,
/// unless a Scale layer follows (NetworkMapper::join_batch_norm).
MappedLayer map_batch_norm(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("batch_norm_param");
  Json keys{{"type", "batch_norm"}};
  keys["epsilon"] = plain_number(from.number("eps").value_or(1e-5));
  const double kept = from.number("moving_average_fraction").value_or(0.999);
  if (kept < 0 || kept > 1)
    fail_at(from.place_of("moving_average_fraction"), "expected a number from 0 to 1");
  // Rounds to a decimal fraction: 1 - 0.999 must become 0.001.
  keys["momentum"] = plain_number(std::stod(text(1 - kept)));
  remark_statistics(layer, from, remarks);
  keys["learning_rate_multipliers"] = {0, 0};
  return {.keys = keys, .parameters = 0};
}

constexpr std::array kWeightedMappings{
    LayerMappingEntry{"BatchNorm", map_batch_norm},
    LayerMappingEntry{"Bias", map_bias},
    LayerMappingEntry{"Convolution", map_convolution},
    LayerMappingEntry{"Deconvolution", map_deconvolution},
    LayerMappingEntry{"InnerProduct", map_inner_product},
    LayerMappingEntry{"PReLU", map_prelu},
    LayerMappingEntry{"Scale", map_scale},
};

}  // namespace

std::span<const LayerMappingEntry> weighted_mappings() { return kWeightedMappings; }

}  // namespace poseidon::importer
