#include "importer/layer_mapping.h"

#include <doctest/doctest.h>

#include "layers/registry.h"
#include "net/network.h"
#include "tests/importer/recording_log.h"

namespace poseidon::importer {
namespace {

struct Case {
  std::string type, fields, keys;
  int parameters = 0;
  std::string inputs = R"(["input"])";
};

/// Our keys for a Caffe layer.
MappedLayer mapped(const Case& each) {
  made::RecordingLog said;
  Remarks remarks(said, false);
  const CaffeNetwork network("layer { name: 'a' type: '" + each.type + "' " + each.fields + " }",
                             "n.prototxt");
  const LayerMapping mapping = mapping_of(each.type);
  REQUIRE((mapping != nullptr));
  MappedLayer layer = mapping(network.layers().at(0), remarks);
  network.top().message("layer").refuse_unread(remarks);
  CHECK(said.warnings.empty());
  return layer;
}

/// The number of parameters of our layer with these keys; -1 if this version does not have the
/// type.
int64_t parameters_here(const Case& each) {
  Json layer = Json::parse(each.keys);
  if (layers::make_definition(layer["type"].get<std::string>()) == nullptr) return -1;
  layer["name"] = "a";
  layer["inputs"] = Json::parse(each.inputs);
  const Json json{{"name", "n"},
                  {"input", {{"channels", 3}, {"height", 8}, {"width", 8}}},
                  {"layers", Json::array({layer})}};
  const net::Network network(json, "n.json", 1);
  return static_cast<int64_t>(network.nodes().at(0).definition->parameters().size());
}

}  // namespace

TEST_CASE("each Caffe layer type is mapped to keys that the layer accepts") {
  const std::vector<Case> cases{
      {"AbsVal", "", R"({"type":"absval"})"},
      {"ArgMax", "argmax_param { top_k: 2 out_max_val: true }",
       R"({"type":"argmax","top_k":2,"values":true})"},
      {"Bias", "bias_param { filler { value: 2 } }",
       R"({"type":"bias","filler":{"type":"constant","value":2}})", 1},
      {"BNLL", "", R"({"type":"bnll"})"},
      {"Clip", "clip_param { min: -1 max: 0.5 }", R"({"type":"clip","minimum":-1,"maximum":0.5})"},
      {"Crop", "crop_param { axis: 2 offset: 0 offset: 0 }", R"({"type":"crop","offset":[0,0]})", 0,
       R"(["input","input"])"},
      {"Deconvolution", "convolution_param { num_output: 2 kernel_size: 4 stride: 2 pad: 1 }",
       R"({"type":"deconvolution","outputs":2,"kernel":4,"stride":2,"padding":1,)"
       R"("weight_filler":{"type":"constant","value":0}})",
       2},
      {"ELU", "elu_param { alpha: 0.5 }", R"({"type":"elu","alpha":0.5})"},
      {"Exp", "exp_param { base: 2 scale: 3 shift: 1 }",
       R"({"type":"exp","base":2,"scale":3,"shift":1})"},
      {"Log", "log_param { base: -1 shift: 1 }", R"({"type":"log","shift":1})"},
      {"MVN", "mvn_param { normalize_variance: false across_channels: true eps: 1e-6 }",
       R"({"type":"mvn","epsilon":1e-06,"across_channels":true,"variance":false})"},
      {"PReLU", "prelu_param { channel_shared: true filler { value: 0.1 } }",
       R"({"type":"prelu","shared":true,"slope_filler":{"type":"constant","value":0.1}})", 1},
      {"Power", "power_param { power: 2 scale: 0.5 shift: 1 }",
       R"({"type":"power","power":2,"scale":0.5,"shift":1})"},
      {"Reduction", "reduction_param { operation: SUMSQ axis: 1 coeff: 2 }",
       R"({"type":"reduction","coefficient":2,"operation":"sumsq"})"},
      {"Reshape", "reshape_param { shape { dim: [0, 12, -1, 4] } }",
       R"({"type":"reshape","shape":[12,-1,4]})"},
      {"Scale", "bottom: 'x' scale_param { bias_term: true filler { value: 2 } }",
       R"({"type":"scale","bias":true,"scale_filler":{"type":"constant","value":2}})", 2},
      {"Silence", "", R"({"type":"silence"})"},
      {"Swish", "swish_param { beta: 2 }", R"({"type":"swish","beta":2})"},
      {"Threshold", "threshold_param { threshold: 0.5 }",
       R"({"type":"threshold","threshold":0.5})"},
      {"Tile", "tile_param { axis: 1 tiles: 3 }", R"({"type":"tile","tiles":3})"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.type);
    const MappedLayer layer = mapped(each);
    CHECK(layer.keys.dump() == each.keys);
    CHECK(layer.parameters == each.parameters);
    if (const int64_t here = parameters_here(each); here >= 0) CHECK(here == each.parameters);
  }
}

}  // namespace poseidon::importer
