#include "importer/network_mapping.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "importer/auxiliary_inputs.h"
#include "layers/registry.h"
#include "tests/importer/recording_log.h"
#include "tests/support/error_of.h"

namespace poseidon::importer {
namespace {

/// A mapped network, and the messages about it.
struct Mapped {
  explicit Mapped(const std::string& layers, bool skips_unknown = false,
                  const std::string& inputs =
                      "input: 'data' input: 'label' input_dim: [2, 3, 8, 8, 2, 1, 1, 1]\n")
      : remarks(said, skips_unknown), network(inputs + layers, "n.prototxt") {
    imported = map_network(network, {3, 8, 8}, remarks);
    network.top().refuse_unread(remarks);
  }

  /// The i-th layer as one line of JSON.
  std::string layer(size_t i = 0) const { return imported.json["layers"].at(i).dump(); }
  size_t layers() const { return imported.layers.size(); }

  made::RecordingLog said;
  Remarks remarks;
  CaffeNetwork network;
  ImportedNetwork imported;
};

std::string fault(const std::string& layers) {
  return error_of<ConfigError>([&] { Mapped{layers}; });
}

/// A Caffe layer "a" that reads the images.
std::string one(const std::string& type, const std::string& more = "") {
  return "layer { name: 'a' type: '" + type + "' bottom: 'data' top: 'a' " + more + " }\n";
}

std::string mapped(const std::string& type, const std::string& more = "") {
  const Mapped network(one(type, more));
  CHECK(network.said.warnings.empty());
  return network.layer();
}

}  // namespace

TEST_CASE("a convolution is mapped with every form of geometry, fillers and multipliers") {
  CHECK(mapped("Convolution",
               "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 dilation: 2 "
               "group: 3 engine: CUDNN weight_filler { type: 'msra' } "
               "bias_filler { type: 'constant' value: 0.5 } } "
               "param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }") ==
        R"({"name":"a","type":"convolution","outputs":4,"kernel":3,"stride":2,"padding":1,)"
        R"("dilation":2,"groups":3,"weight_filler":{"type":"he"},)"
        R"("bias_filler":{"type":"constant","value":0.5},)"
        R"("learning_rate_multipliers":[1,2],"decay_multipliers":[1,0]})");
  CHECK(mapped("Convolution",
               "convolution_param { num_output: 4 kernel_h: 3 kernel_w: 5 pad_h: 1 pad_w: 2 "
               "stride_h: 1 stride_w: 2 bias_term: false weight_filler { type: 'xavier' } }") ==
        R"({"name":"a","type":"convolution","outputs":4,"kernel":[3,5],"stride":[1,2],)"
        R"("padding":[1,2],"bias":false,"weight_filler":{"type":"xavier"}})");
  CHECK(mapped("Convolution", "convolution_param { num_output: 4 kernel_size: [3, 5] }") ==
        R"({"name":"a","type":"convolution","outputs":4,"kernel":[3,5],)"
        R"("weight_filler":{"type":"constant","value":0}})");
}

TEST_CASE("fillers are mapped with Caffe's defaults") {
  const auto filler = [](const std::string& text) {
    const Mapped network(one(
        "InnerProduct", "inner_product_param { num_output: 2 weight_filler { " + text + " } }"));
    return Json::parse(network.layer())["weight_filler"].dump();
  };
  CHECK(filler("") == R"({"type":"constant","value":0})");
  CHECK(filler("type: 'gaussian'") == R"({"type":"gaussian","deviation":1})");
  CHECK(filler("type: 'gaussian' mean: 1 std: 0.01") ==
        R"({"type":"gaussian","mean":1,"deviation":0.01})");
  CHECK(filler("type: 'uniform'") == R"({"type":"uniform","minimum":0,"maximum":1})");
  CHECK(filler("type: 'uniform' min: -0.5 max: 0.5") ==
        R"({"type":"uniform","minimum":-0.5,"maximum":0.5})");
  CHECK(filler("type: 'gaussian' std: 0.1 sparse: 15") ==
        R"({"type":"gaussian","deviation":0.1,"sparse":15})");
  CHECK(filler("type: 'positive_unitball'") == R"({"type":"positive_unitball"})");
  CHECK(filler("type: 'bilinear'") == R"({"type":"bilinear"})");
  const Mapped other(one("InnerProduct",
                         "inner_product_param { num_output: 2 weight_filler { type: 'normal' } }"));
  CHECK(other.said.warnings ==
        std::vector<std::string>{
            "n.prototxt:2:116: Poseidon has no filler \"normal\": network.json uses \"xavier\""});
}

TEST_CASE("layers without parameters are mapped") {
  CHECK(mapped("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }") ==
        R"({"name":"a","type":"pooling","method":"average","kernel":3,"stride":2,"padding":1})");
  CHECK(mapped("Pooling", "pooling_param { kernel_size: 2 round_mode: FLOOR }") ==
        R"({"name":"a","type":"pooling","method":"max","kernel":2,"rounding":"floor"})");
  CHECK(mapped("Pooling", "pooling_param { pool: 1 global_pooling: true }") ==
        R"({"name":"a","type":"pooling","method":"average","global":true})");
  CHECK(mapped("ReLU", "relu_param { negative_slope: 0.1 }") ==
        R"({"name":"a","type":"relu","slope":0.1})");
  CHECK(mapped("LRN", "lrn_param { local_size: 3 alpha: 5e-05 beta: 0.75 k: 2 }") ==
        R"({"name":"a","type":"lrn","alpha":5e-05,"beta":0.75,"k":2,"size":3})");
  CHECK(mapped("LRN", "lrn_param { norm_region: WITHIN_CHANNEL k: 2 }") ==
        R"({"name":"a","type":"lrn","region":"within_channel"})");
  CHECK(mapped("Dropout", "dropout_param { dropout_ratio: 0.4 }") ==
        R"({"name":"a","type":"dropout","probability":0.4})");
  CHECK(mapped("Flatten", "flatten_param { axis: 1 end_axis: -1 }") ==
        R"({"name":"a","type":"flatten"})");
  CHECK(mapped("Softmax") == R"({"name":"a","type":"softmax"})");
  CHECK(mapped("Sigmoid") == R"({"name":"a","type":"sigmoid"})");
  CHECK(mapped("TanH") == R"({"name":"a","type":"tanh"})");
}

TEST_CASE("an unsupported value is refused with its position") {
  CHECK(fault(one("Softmax", "softmax_param { axis: 2 }")) ==
        "n.prototxt:2:75: \"axis\": expected 1, got 2: the classes are the channels "
        "(--skip-unknown continues without it)");
  CHECK(fault(one("Concat", "concat_param { concat_dim: 0 }")).find("expected 1, got 0") !=
        std::string::npos);
  CHECK(fault(one("ReLU", "relu_param { negative_slop: 0.1 }"))
            .find("the field \"negative_slop\" has no equivalent in Poseidon") !=
        std::string::npos);
  CHECK(fault(one("Convolution", "convolution_param { kernel_size: 3 }")) ==
        "n.prototxt:2:63: layer \"a\" (Convolution) needs a \"num_output\"");
  CHECK(fault(one("Convolution", "convolution_param { num_output: 2 kernel_h: 3 }")) ==
        "n.prototxt:2:97: expected \"kernel_h\" and \"kernel_w\", got only one");
  CHECK(fault(one("ReLU", "loss_weight: 1")).find("only a loss can have a \"loss_weight\"") !=
        std::string::npos);
}

TEST_CASE("coefficients of a sum become power layers") {
  const std::string sum =
      one("Eltwise", "bottom: 'data' bottom: 'data' eltwise_param { coeff: [1, -1, 0.5] }");
  if (layers::make_definition("power") == nullptr) {
    CHECK(fault(sum).find("expected a sum without factors, got the factor -1") !=
          std::string::npos);
  } else {
    const Mapped network(sum);
    CHECK(network.layer(0) == R"({"name":"a_input_1","type":"power","scale":-1})");
    CHECK(network.layer(1) == R"({"name":"a_input_2","input":"input","type":"power","scale":0.5})");
    CHECK(network.layer(2) ==
          R"({"name":"a","inputs":["input","a_input_1","a_input_2"],"type":"eltwise",)"
          R"("operation":"sum"})");
  }
  CHECK(fault(one("Eltwise", "bottom: 'data' eltwise_param { coeff: 2 }")) ==
        "n.prototxt:2:90: \"coeff\": expected one for each of the 2 inputs of a SUM, got 1 of a "
        "SUM");
}

TEST_CASE("an unknown layer type is refused by name, or skipped on request") {
  CHECK(fault(one("Convolve")) ==
        "n.prototxt:2:1: layer \"a\" (Convolve): the importer does not know this type "
        "(--skip-unknown continues without it)");
  CHECK(fault(one("Python", "python_param { module: 'm' }")) ==
        "n.prototxt:2:1: layer \"a\" (Python) has no equivalent in Poseidon: it runs Python code, "
        "which the file does not contain (--skip-unknown continues without it)");
  const Mapped skipped(one("Python", "python_param { module: 'm' }") +
                           "layer { name: 'b' type: 'TanH' bottom: 'a' top: 'b' }",
                       true);
  CHECK(skipped.layer() == R"({"name":"b","type":"tanh"})");
  CHECK(skipped.said.warnings.size() == 1);
}

TEST_CASE("tops are replaced by the layers that write them, in place or not") {
  const Mapped network(
      one("Sigmoid") + "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }\n" +
      "layer { name: 's' type: 'Split' bottom: 'a' top: 'a1' top: 'a2' }\n" +
      "layer { name: 'b' type: 'TanH' bottom: 'a1' top: 'other' }\n" +
      "layer { name: 'c' type: 'Concat' bottom: 'a2' bottom: 'other' bottom: 'data' top: 'c' }\n" +
      "layer { name: 'input' type: 'ReLU' bottom: 'data' top: 'd.1' }\n" +
      "layer { name: 'd.1' type: 'Eltwise' bottom: 'd.1' bottom: 'd.1' top: 'e' }\n" +
      "layer { name: 'quiet' type: 'Silence' bottom: 'c' }");
  CHECK(network.layer(0) == R"({"name":"a","type":"sigmoid"})");
  CHECK(network.layer(1) == R"({"name":"r","type":"relu"})");
  CHECK(network.layer(2) == R"({"name":"b","type":"tanh"})");
  CHECK(network.layer(3) == R"({"name":"c","inputs":["r","b","input"],"type":"concat"})");
  CHECK(network.layer(4) == R"({"name":"input_layer","input":"input","type":"relu"})");
  CHECK(
      network.layer(5) ==
      R"({"name":"d_1","inputs":["input_layer","input_layer"],"type":"eltwise","operation":"sum"})");
  CHECK(network.said.notes.at(0) ==
        "n.prototxt:7:1: layer \"input\" (ReLU) is renamed to \"input_layer\"");
}

TEST_CASE("layers with reserved names are renamed") {
  const Mapped network(one("Sigmoid") +
                       "layer { name: 'label' type: 'ReLU' bottom: 'a' top: 'b' }\n" +
                       "layer { name: 'label_layer' type: 'TanH' bottom: 'b' top: 'c' }");
  CHECK(network.layer(1) == R"({"name":"label_layer","type":"relu"})");
  CHECK(network.layer(2) == R"({"name":"label_layer_2","type":"tanh"})");
  CHECK(network.said.notes.at(0) ==
        "n.prototxt:3:1: layer \"label\" (ReLU) is renamed to \"label_layer\"");
}

TEST_CASE("unknown inputs, outputs written twice and malformed layers are refused") {
  CHECK(fault("layer { name: 'b' type: 'TanH' bottom: 'dat' top: 'b' }") ==
        "n.prototxt:2:32: layer \"b\" (TanH) reads \"dat\": expected the top of a layer above it; "
        "did "
        "you mean \"data\"?");
  CHECK(fault(one("TanH") + "layer { name: 'b' type: 'TanH' bottom: 'data' top: 'a' }") ==
        "n.prototxt:3:47: layer \"b\" (TanH) writes \"a\", which a layer above it writes already");
  CHECK(fault("layer { name: 'b' type: 'SoftmaxWithLoss' bottom: 'data' top: 'b' }")
            .find("expected scores and the labels of the data as its inputs") != std::string::npos);
  CHECK(fault("layer { type: 'TanH' }") == "n.prototxt:2:1: a layer needs a \"name\"");
  CHECK(fault("") == "n.prototxt:1:1: expected at least one \"layer\", got none");
  CHECK(fault(one("TanH") + "layers { }") ==
        "n.prototxt:3:1: expected either \"layer\" or \"layers\", got both in one file");
}

TEST_CASE("a batch norm is merged with the next Scale; alone it has a fixed scale and shift") {
  const std::string norm =
      "layer { name: 'n' type: 'BatchNorm' bottom: 'data' top: 'n' "
      "param { lr_mult: 0 } param { lr_mult: 0 } param { lr_mult: 0 } "
      "batch_norm_param { moving_average_fraction: 0.9 eps: 0.0001 } }\n";
  const auto scale = [](const std::string& bottom, const std::string& more) {
    return "layer { name: 's' type: 'Scale' bottom: '" + bottom + "' top: 's' " + more + " }\n";
  };
  const Mapped joined(norm + scale("n",
                                   "scale_param { bias_term: true filler { value: 2 } } "
                                   "param { lr_mult: 3 } param { decay_mult: 0 }"));
  REQUIRE(joined.layers() == 1);
  CHECK(joined.layer() == R"({"name":"n","type":"batch_norm","epsilon":0.0001,"momentum":0.1,)"
                          R"("scale_filler":{"type":"constant","value":2},)"
                          R"("learning_rate_multipliers":[3,1],"decay_multipliers":[1,0]})");
  CHECK(joined.said.notes.at(0) ==
        "n.prototxt:3:1: layer \"s\" (Scale) becomes the scale and shift of the batch norm \"n\"");
  const Mapped without_shift(norm + scale("n", ""));
  CHECK(without_shift.layer() ==
        R"({"name":"n","type":"batch_norm","epsilon":0.0001,"momentum":0.1,)"
        R"("learning_rate_multipliers":[1,0]})");
  // If another layer reads the normalized value, batch norm and scale stay separate layers.
  const Mapped read_twice(
      norm + scale("n", "") + "layer { name: 'r' type: 'ReLU' bottom: 'n' top: 'r' }", true);
  CHECK(Json::parse(read_twice.layer())["learning_rate_multipliers"].dump() == "[0,0]");
  const Mapped alone(norm + "layer { name: 'r' type: 'ReLU' bottom: 'n' top: 'n' }");
  CHECK(alone.layers() == 2);
  CHECK(alone.layer() == R"({"name":"n","type":"batch_norm","epsilon":0.0001,"momentum":0.1,)"
                         R"("learning_rate_multipliers":[0,0]})");
}

namespace {

std::string layer(const std::string& name, const std::string& type, const std::string& bottom,
                  const std::string& top, const std::string& more = "") {
  return "layer { name: '" + name + "' type: '" + type + "' bottom: '" + bottom + "' top: '" + top +
         "' " + more + " }\n";
}

std::string accuracy(const std::string& more) {
  return "layer { name: 'acc' type: 'Accuracy' bottom: 'a' bottom: 'label' top: 'acc' " + more +
         " }\n";
}

constexpr const char* kTrain = "include { phase: TRAIN }";
constexpr const char* kTest = "include { phase: TEST }";

}  // namespace

TEST_CASE("phases: include and exclude rules determine the phase of a layer") {
  const Mapped network(
      one("ReLU") + layer("p", "Softmax", "a", "p", kTest) +
      layer("q", "Softmax", "a", "q", "include { stage: 'deploy' }") +
      layer("r", "TanH", "a", "r", "exclude { phase: TEST min_level: 1 }") +
      layer("s", "TanH", "r", "s", "exclude { phase: TEST }") + accuracy(kTest) +
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'label' top: 'l' }");
  CHECK(network.layer(0) == R"({"name":"a","type":"relu"})");
  CHECK(network.layer(1) == R"({"name":"p","phase":"test","type":"softmax"})");
  CHECK(network.layer(2) == R"({"name":"r","input":"a","type":"tanh"})");
  CHECK(network.layer(3) == R"({"name":"s","phase":"train","type":"tanh"})");
  CHECK(network.layer(4) == R"({"name":"acc","phase":"test","input":"a","type":"accuracy"})");
  CHECK(network.layer(5) == R"({"name":"l","input":"a","type":"softmax_loss"})");
  CHECK(network.said.warnings.empty());
  CHECK(network.said.notes ==
        std::vector<std::string>{
            "n.prototxt:4:1: layer \"q\" (Softmax) is in no phase, because of its level or stage"});
  CHECK(fault(one("TanH", "include { phase: TRAIN } exclude { phase: TEST }"))
            .find("\"include\" and \"exclude\" exclude each other") != std::string::npos);
}

TEST_CASE("the output of an in-place layer of one phase is read only in that phase") {
  const Mapped network(one("ReLU") + layer("noise", "TanH", "a", "a", kTrain) +
                       layer("b", "Sigmoid", "a", "b") + layer("c", "AbsVal", "a", "c") +
                       layer("d", "TanH", "b", "d", kTest));
  CHECK(network.layer(1) == R"({"name":"noise","phase":"train","type":"tanh"})");
  // In each phase it reads the layer before it.
  CHECK(network.layer(2) == R"({"name":"b","type":"sigmoid"})");
  CHECK(network.layer(3) == R"({"name":"c","phase":"train","input":"noise","type":"absval"})");
  CHECK(network.layer(4) == R"({"name":"c","phase":"test","input":"a","type":"absval"})");
  CHECK(network.layer(5) == R"({"name":"d","phase":"test","input":"b","type":"tanh"})");
  CHECK(network.said.warnings.empty());
  CHECK(fault(one("ReLU", kTrain) + layer("b", "TanH", "a", "b") +
              layer("t", "TanH", "data", "t", kTest))
            .starts_with("n.prototxt:3:32: layer \"b\" (TanH) reads \"a\": expected the top of a "
                         "layer above it in phase TEST"));
}

TEST_CASE("TRAIN layers that tests need, and an in-place dropout, are in both phases") {
  const Mapped network(
      "layer { name: 'd' type: 'Data' top: 'x' top: 'y' include { phase: TRAIN } }\n" +
          layer("a", "ReLU", "x", "a") + layer("drop", "Dropout", "a", "a", kTrain) +
          "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'y' top: 'l' "
          "include { phase: TRAIN } }\n" +
          layer("p", "Softmax", "a", "p", kTest),
      false, "");
  for (size_t i = 0; i < 3; ++i) CHECK_FALSE(Json::parse(network.layer(i)).contains("phase"));
  CHECK(network.layer(3) == R"({"name":"p","phase":"test","input":"drop","type":"softmax"})");
  // Without layers for TEST, tests use the training layers.
  const Mapped alone(one("ReLU", kTrain) + layer("t", "TanH", "a", "t", kTrain));
  CHECK(alone.layer(1) == R"({"name":"t","type":"tanh"})");
  // A head for TRAIN exists in training only, with all its layers.
  const Mapped head(
      one("ReLU") + layer("h", "TanH", "a", "h", kTrain) +
      layer("drop", "Dropout", "h", "h", kTrain) +
      "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'h' bottom: 'label' top: 'l' "
      "include { phase: TRAIN } }\n" +
      layer("p", "Softmax", "a", "p", kTest));
  for (size_t i = 1; i < 4; ++i) CHECK(Json::parse(head.layer(i))["phase"] == "train");
}

TEST_CASE("layers with the same name in both phases share one set of parameters") {
  const auto linear = [](const std::string& bottom, const std::string& more) {
    return layer("f", "InnerProduct", bottom, "f",
                 "param { name: 'w' lr_mult: 2 } param { name: 'b' } inner_product_param { "
                 "num_output: 2 } " +
                     more);
  };
  const Mapped network(one("ReLU") + layer("n", "TanH", "a", "n", kTrain) + linear("n", kTrain) +
                       linear("a", kTest));
  const Json trained = Json::parse(network.layer(2)), tested = Json::parse(network.layer(3));
  CHECK(trained["name"] == "f");
  CHECK(trained["phase"] == "train");
  CHECK(tested["name"] == "f");
  CHECK(tested["phase"] == "test");
  CHECK_FALSE(tested.contains("input"));  // reads the layer before it
  CHECK_FALSE(tested.contains("shares"));
  CHECK(tested["learning_rate_multipliers"] == trained["learning_rate_multipliers"]);
}

TEST_CASE("batch norms with the same name in both phases are merged") {
  const auto norm = [](const std::string& use_global, const char* rule) {
    return layer("n", "BatchNorm", "data", "n",
                 "batch_norm_param { use_global_stats: " + use_global + " } " + rule);
  };
  const Mapped network(norm("false", kTrain) + norm("true", kTest) +
                       layer("s", "Scale", "n", "n", "scale_param { bias_term: true }") +
                       layer("r", "ReLU", "n", "n"));
  REQUIRE(network.layers() == 2);
  CHECK(network.layer(0) == R"({"name":"n","type":"batch_norm","epsilon":1e-05,"momentum":0.001})");
  CHECK(network.layer(1) == R"({"name":"r","type":"relu"})");
  CHECK(network.said.warnings.empty());
  CHECK(network.said.notes.at(0) ==
        "n.prototxt:3:1: layer \"n\" (BatchNorm) is merged with the same layer of the other phase");
}

TEST_CASE("accuracy layers are imported, unless their options are unsupported") {
  const Mapped network(one("ReLU") + accuracy("accuracy_param { top_k: 5 }"));
  CHECK(network.layer(1) == R"({"name":"acc","type":"accuracy","top_k":[5]})");
  CHECK(network.said.notes.empty());
  for (const char* other :
       {"accuracy_param { ignore_label: 255 }", "top: 'by_class'", "accuracy_param { axis: 2 }"}) {
    const Mapped left_out(one("ReLU") + accuracy(other));
    CHECK(left_out.layers() == 1);
    CHECK(left_out.said.notes ==
          std::vector<std::string>{"n.prototxt:3:1: layer \"acc\" (Accuracy) "
                                   "is left out: tests report the accuracy"});
  }
}

TEST_CASE("a TEST-only layer without an equivalent is skipped with a warning") {
  const Mapped network(one("ReLU") + layer("o", "HDF5Output", "a", "o", kTest));
  CHECK(network.layers() == 1);
  CHECK(network.said.warnings ==
        std::vector<std::string>{"n.prototxt:3:1: layer \"o\" (HDF5Output) is in TEST only and has "
                                 "no equivalent in Poseidon: it is left out"});
}

TEST_CASE("losses keep their weight and read scores and labels") {
  const Mapped network(one("TanH") +
                       "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'a' bottom: 'label' top: "
                       "'l' loss_weight: 0.3 loss_param { normalization: VALID } }");
  CHECK(network.layer(1) == R"({"name":"l","type":"softmax_loss","weight":0.3})");
  CHECK(fault("layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' top: 'l' "
              "loss_param { ignore_label: 255 } }")
            .find("\"ignore_label\": Poseidon cannot ignore a label") != std::string::npos);
}

TEST_CASE("losses read the inputs of their type, and labels by name if they are targets") {
  const Mapped network(
      one("TanH") +
      "layer { name: 'l' type: 'EuclideanLoss' bottom: 'a' bottom: 'label' top: 'l' }\n"
      "layer { name: 'm' type: 'EuclideanLoss' bottom: 'a' bottom: 'data' top: 'm' }\n"
      "layer { name: 'n' type: 'ContrastiveLoss' bottom: 'a' bottom: 'data' bottom: 'label' "
      "top: 'n' contrastive_loss_param { margin: 2 legacy_version: true } }");
  CHECK(network.layer(1) == R"({"name":"l","inputs":["a","label"],"type":"euclidean_loss"})");
  CHECK(network.layer(2) == R"({"name":"m","inputs":["a","input"],"type":"euclidean_loss"})");
  CHECK(network.layer(3) == R"({"name":"n","inputs":["a","input"],"type":"contrastive_loss",)"
                            R"("margin":2,"legacy":true})");
  CHECK(fault("layer { name: 'n' type: 'ContrastiveLoss' bottom: 'data' bottom: 'label' top: 'n' }")
            .find("expected 2 inputs and the labels of the data as its inputs") !=
        std::string::npos);
}

TEST_CASE("a Slice layer becomes one layer for each of its tops") {
  const std::string slice =
      "layer { name: 's' type: 'Slice' bottom: 'data' top: 'x' top: 'y' top: 'z' slice_param { ";
  const Mapped network(slice + "slice_dim: 1 slice_point: [1, 2] } }\n" +
                       "layer { name: 'b' type: 'TanH' bottom: 'y' top: 'b' }");
  CHECK(network.layer(0) == R"({"name":"s_1","type":"slice","end":1})");
  CHECK(network.layer(1) == R"({"name":"s_2","input":"input","type":"slice","begin":1,"end":2})");
  CHECK(network.layer(2) == R"({"name":"s_3","input":"input","type":"slice","begin":2})");
  CHECK(network.layer(3) == R"({"name":"b","input":"s_2","type":"tanh"})");
  CHECK(
      fault(slice + "} }") ==
      "n.prototxt:2:75: layer \"s\" (Slice): expected a \"slice_point\" between each two of the 3 "
      "tops, got 0");
  CHECK(
      fault(slice + "axis: 0 slice_point: [1, 2] } }").find("Poseidon slices along the channels") !=
      std::string::npos);
}

TEST_CASE("parameters with the same name are shared, with the first layer's multipliers") {
  const auto linear = [](const std::string& name, const std::string& params) {
    return "layer { name: '" + name + "' type: 'InnerProduct' bottom: 'data' top: '" + name + "' " +
           params + " inner_product_param { num_output: 2 } }\n";
  };
  const Mapped network(linear("a", "param { name: 'w' lr_mult: 2 } param { name: 'b' }") +
                       linear("p", "param { name: 'w' } param { name: 'b' }") + linear("q", ""));
  const Json shared = Json::parse(network.layer(1));
  CHECK(shared["shares"] == "a");
  CHECK(shared["learning_rate_multipliers"] == Json{2, 1});
  CHECK_FALSE(Json::parse(network.layer(0)).contains("shares"));
  CHECK_FALSE(Json::parse(network.layer(2)).contains("shares"));
  CHECK(fault(linear("a", "param { name: 'w' } param { name: 'b' }") +
              linear("p", "param { name: 'w' }")) ==
        "n.prototxt:3:1: layer \"p\" (InnerProduct) shares \"w\": Poseidon's layers share all "
        "parameters, in the same order, or none (--skip-unknown continues without it)");
  const Mapped old(
      "layers { name: 'a' type: INNER_PRODUCT bottom: 'data' top: 'a' param: 'w' param: 'b' "
      "inner_product_param { num_output: 3 } }\n"
      "layers { name: 'b' type: INNER_PRODUCT bottom: 'data' top: 'b' param: 'w' param: 'b' "
      "inner_product_param { num_output: 3 } }");
  CHECK(Json::parse(old.layer(1))["shares"] == "a");
}

namespace {

/// A network after these data layers: "f" reads the images, "g" reads `blob`.
std::string mapped_inputs(const std::string& data, const std::vector<AuxiliaryInput>& extras,
                          const std::string& blob = "pose") {
  const std::string layers = data + one("InnerProduct", "inner_product_param { num_output: 2 }") +
                             "layer { name: 'g' type: 'InnerProduct' bottom: '" + blob +
                             "' top: 'g' inner_product_param { num_output: 2 } }\n";
  made::RecordingLog said;
  Remarks remarks(said, false);
  const CaffeNetwork network(layers, "n.prototxt");
  const ImportedNetwork imported = map_network(network, {3, 8, 8}, remarks, extras);
  network.top().refuse_unread(remarks);
  return imported.json.value("inputs", Json::array()).dump() + " " +
         imported.json["layers"][1].value("input", "");
}

}  // namespace

TEST_CASE("further tops of data layers become auxiliary inputs if their shapes are known") {
  const std::string hdf5 =
      "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' top: 'pose' }\n";
  CHECK(mapped_inputs(hdf5, {{"pose", {6}}}) == R"([{"name":"pose","shape":[6]}] pose)");
  CHECK(error_of<ConfigError>([&] { mapped_inputs(hdf5, {}); }) ==
        "n.prototxt:3:40: layer \"g\" (InnerProduct) reads \"pose\", whose shape the file does not "
        "state: expected --extra pose=CHANNELSxHEIGHTxWIDTH");
  CHECK(error_of<ConfigError>([&] {
          mapped_inputs(hdf5, {{"pos", {6}}, {"pose", {6}}});
        }) ==
        "--extra pos: no auxiliary input has this name; expected the name of a data layer's top or "
        "of a network input, other than the images");
  const auto with_shapes = [](const char* shapes) {
    return std::string(
               "layer { name: 'd' type: 'Input' top: 'data' top: 'pose' top: 'label' "
               "input_param { ") +
           shapes + " } }\n";
  };
  CHECK(mapped_inputs(with_shapes("shape { dim: [4, 3, 8, 8] } shape { dim: [4, 1, 5, 7] } "
                                  "shape { dim: 4 }"),
                      {}) == R"([{"name":"pose","shape":[1,5,7]}] pose)");
  CHECK(mapped_inputs(with_shapes("shape { dim: [4, 3, 8, 8] } shape { dim: [4, 9] } "
                                  "shape { dim: 4 }"),
                      {}) == R"([{"name":"pose","shape":[9]}] pose)");
  CHECK(mapped_inputs(with_shapes("shape { dim: [4, 3, 8, 8] }"), {{"pose", {9}}}) ==
        R"([{"name":"pose","shape":[9]}] pose)");
  CHECK(mapped_inputs("layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' top: 'x/y' "
                      "dummy_data_param { shape { dim: [4, 3, 8, 8] } } }\n",
                      {}, "x/y") == R"([{"name":"x_y","shape":[3,8,8]}] x_y)");
  CHECK(mapped_inputs("input: 'data' input: 'label' input: 'pose' "
                      "input_dim: [2, 3, 8, 8, 2, 1, 1, 1, 2, 4, 1, 1]\n",
                      {}) == R"([{"name":"pose","shape":[4,1,1]}] pose)");
}

TEST_CASE("an auxiliary input is the same in both phases and has a unique name") {
  const auto data = [](const char* phase, const char* width) {
    return std::string(
               "layer { name: 'd' type: 'DummyData' top: 'data' top: 'label' top: 'g' "
               "include { phase: ") +
           phase + " } dummy_data_param { shape { dim: [4, 3, 8, 8] } shape { dim: 4 } " +
           "shape { dim: 4 dim: " + width + " } } }\n";
  };
  const std::string reader = one("InnerProduct", "inner_product_param { num_output: 2 }") +
                             "layer { name: 'g' type: 'InnerProduct' bottom: 'g' top: 'h' "
                             "inner_product_param { num_output: 2 } }\n";
  const auto mapped = [&](const char* in_test) {
    return Mapped(data("TRAIN", "5") + data("TEST", in_test) + reader, false, "");
  };
  const Mapped network = mapped("5");
  CHECK(network.imported.json["inputs"].dump() == R"([{"name":"g","shape":[5]}])");
  CHECK(Json::parse(network.layer(1))["name"] == "g_2");
  CHECK(Json::parse(network.layer(1))["input"] == "g");
  CHECK(error_of<ConfigError>([&] {
          mapped("6");
        }).find("\"g\": expected shape 5 as in the other phase, got 6") != std::string::npos);
}

TEST_CASE("--extra: shapes of auxiliary inputs are parsed, and malformed ones are refused") {
  CHECK(parse_auxiliary_input("pose=6") == AuxiliaryInput{"pose", {6}});
  CHECK(parse_auxiliary_input("map=1x28x30") == AuxiliaryInput{"map", {1, 28, 30}});
  for (const char* given : {"pose", "=3", "pose=", "pose=3x", "pose=x3", "pose=0", "pose=2x3",
                            "pose=1x2x3x4", "pose=3y"}) {
    CAPTURE(given);
    CHECK(error_of<ConfigError>([&] { parse_auxiliary_input(given); })
              .starts_with("--extra: expected NAME=CHANNELSxHEIGHTxWIDTH or NAME=VALUES, such as "
                           "pose=6, got "));
  }
}

TEST_CASE("layers of V1: types by word or number and lists of multipliers are mapped") {
  const Mapped network(
      "layers { name: 'a' type: INNER_PRODUCT bottom: 'data' top: 'a' blobs_lr: 1 blobs_lr: 2 "
      "weight_decay: 1 weight_decay: 0 inner_product_param { num_output: 3 } }\n"
      "layers { name: 'b' type: 23 bottom: 'a' top: 'a' }");
  CHECK(network.layer(0) ==
        R"({"name":"a","type":"linear","outputs":3,"weight_filler":{"type":"constant","value":0},)"
        R"("learning_rate_multipliers":[1,2],"decay_multipliers":[1,0]})");
  CHECK(network.layer(1) == R"({"name":"b","type":"tanh"})");
  CHECK(fault("layers { name: 'a' type: INNER_PRODUC }") ==
        "n.prototxt:2:20: expected a layer type such as CONVOLUTION, got INNER_PRODUC; did you "
        "mean \"INNER_PRODUCT\"?");
  CHECK(fault("layers { layer { name: 'a' type: 'conv' } }").find("got V0") != std::string::npos);
}

}  // namespace poseidon::importer
