#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "importer/caffe_model.h"
#include "importer/layer_mapping.h"

namespace poseidon::importer {

namespace {

/// Checks "loss_param". Poseidon's losses divide by the number of samples. Caffe's rules FULL,
/// VALID and BATCH_SIZE do the same if no label is ignored and the scores have one position.
/// Refuses the rule NONE and ignored labels.
void read_normalization(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("loss_param");
  if (from.word("normalization", {"FULL", "VALID", "BATCH_SIZE", "NONE"}) == "NONE")
    remarks.refuse(from.place_of("normalization"),
                   "\"normalization\": NONE is not supported: Poseidon divides a loss by the "
                   "number of samples");
  if (from.has("ignore_label"))
    remarks.refuse(from.place_of("ignore_label"),
                   "\"ignore_label\": Poseidon cannot ignore a label");
  from.mark_as_read({"normalize", "ignore_label"});
}

MappedLayer loss(const char* type, const CaffeLayer& layer, Remarks& remarks) {
  Json keys{{"type", type}};
  read_normalization(layer, remarks);
  const std::vector<double>& weights = layer.loss_weights;
  if (!weights.empty() && weights[0] != 1) keys["weight"] = plain_number(weights[0]);
  return {.keys = keys};
}

MappedLayer map_softmax_loss(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("softmax_param");
  expect_integer(from, "axis", 1, "the classes are the channels", remarks);
  from.mark_as_read({"engine"});
  return loss("softmax_loss", layer, remarks);
}

MappedLayer map_euclidean_loss(const CaffeLayer& layer, Remarks& remarks) {
  return loss("euclidean_loss", layer, remarks);
}
MappedLayer map_sigmoid_loss(const CaffeLayer& layer, Remarks& remarks) {
  return loss("sigmoid_loss", layer, remarks);
}
MappedLayer map_multinomial_loss(const CaffeLayer& layer, Remarks& remarks) {
  return loss("multinomial_loss", layer, remarks);
}

MappedLayer map_hinge_loss(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("hinge_loss_param");
  MappedLayer mapped = loss("hinge_loss", layer, remarks);
  if (from.word("norm", {"", "L1", "L2"}) == "L2") mapped.keys["norm"] = "l2";
  return mapped;
}

MappedLayer map_contrastive_loss(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("contrastive_loss_param");
  MappedLayer mapped = loss("contrastive_loss", layer, remarks);
  put_number(mapped.keys, "margin", from, "margin");
  if (from.boolean("legacy_version").value_or(false)) mapped.keys["legacy"] = true;
  return mapped;
}

/// Reads the infogain matrix from its file, and writes it to the key "matrix".
MappedLayer map_infogain_loss(const CaffeLayer& layer, Remarks& remarks) {
  const MessageReader from = layer.message.message("infogain_loss_param");
  expect_integer(from, "axis", 1, "the classes are the channels", remarks);
  layer.message.message("softmax_param").mark_as_read({"axis", "engine"});
  MappedLayer mapped = loss("infogain_loss", layer, remarks);
  if (layer.bottoms.size() > 2)
    fail_at(layer.message.place_of("bottom"),
            layer.shown() +
                ": Poseidon cannot read the matrix from a third bottom: expected "
                "infogain_loss_param { source: \"FILE.binaryproto\" }");
  const std::string source = from.text("source").value_or("");
  if (source.empty())
    fail_at(from.place(), layer.shown() +
                              ": expected infogain_loss_param { source: "
                              "\"FILE.binaryproto\" }, got no matrix");
  const auto file = find_named_file(source, from.place().file);
  if (file.empty())
    fail_at(from.place_of("source"),
            "\"source\": expected \"" + source +
                "\", or a file of that name next to the prototxt, got neither");
  const std::vector<float> values = read_binaryproto(file).values;
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
    fail_at(from.place_of("source"), "\"source\": the matrix of " + file.filename().string() +
                                         " holds a value that is not finite");
  mapped.keys["matrix"] = plain_numbers(std::vector<double>(values.begin(), values.end()));
  return mapped;
}

constexpr std::array kLossMappings{
    LayerMappingEntry{"ContrastiveLoss", map_contrastive_loss},
    LayerMappingEntry{"EuclideanLoss", map_euclidean_loss},
    LayerMappingEntry{"HingeLoss", map_hinge_loss},
    LayerMappingEntry{"InfogainLoss", map_infogain_loss},
    LayerMappingEntry{"MultinomialLogisticLoss", map_multinomial_loss},
    LayerMappingEntry{"SigmoidCrossEntropyLoss", map_sigmoid_loss},
    LayerMappingEntry{"SoftmaxWithLoss", map_softmax_loss},
};

}  // namespace

std::span<const LayerMappingEntry> loss_mappings() { return kLossMappings; }

}  // namespace poseidon::importer
