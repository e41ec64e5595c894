#include "importer/import.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <memory>

#include "core/cpu/cpu_device.h"
#include "core/error.h"
#include "core/json.h"
#include "data/pfm.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"
#include "tests/data/made_files.h"
#include "tests/importer/caffe_encoder.h"
#include "tests/importer/recording_log.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"
#include "trainer/state/run_tensors.h"
#include "trainer/state/safetensors.h"

namespace poseidon::importer {
namespace {

using data::made::Folder;
using made::Wire;
using Floats = std::vector<float>;
using Lines = std::vector<std::string>;

/// Input files in a folder, and the messages and files of their import.
struct Import {
  explicit Import(const std::string& network, const Wire& weights = "",
                  const std::string& solver = "") {
    write("n.prototxt", network);
    asked.prototxt = folder / "n.prototxt";
    asked.output = folder / "out";
    if (!weights.empty()) asked.weights = write("m.caffemodel", weights);
    if (!solver.empty()) asked.solver = write("s.prototxt", solver);
  }

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    data::made::write(folder / name, data::made::bytes_of(content));
    return folder / name;
  }

  ImportReport run() { return import_caffe(asked, said); }

  std::string fault() {
    const std::string message = error_of<ConfigError>([&] { run(); });
    CHECK_FALSE(std::filesystem::exists(asked.output));
    return without_folder(message);
  }

  std::string without_folder(std::string message) const {
    for (size_t at = message.find(folder.text()); at != std::string::npos;
         at = message.find(folder.text()))
      message.erase(at, folder.text().size() + 1);
    return message;
  }

  /// The lines that contain `part`, without the folder.
  Lines lines_with(const Lines& lines, const std::string& part) const {
    Lines found;
    for (const std::string& line : lines)
      if (line.find(part) != std::string::npos) found.push_back(without_folder(line));
    return found;
  }

  Json json(const std::string& name) const { return read_json(asked.output / name); }

  Floats tensor(const std::string& name) const {
    const trainer::SafetensorsFile file(asked.output / "weights.safetensors");
    const auto* entry = file.find(name);
    REQUIRE_MESSAGE(entry != nullptr, name);
    return file.read(*entry);
  }

  Folder folder;
  CaffeImport asked;
  made::RecordingLog said;
};

Floats counting(size_t count, float first = 1) {
  Floats values(count);
  for (size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

/// The output of a layer of the imported network with the imported weights, computed by the net.
Floats computed(const Import& import, const std::string& layer, const Floats& input,
                const std::vector<int32_t>& labels = {}) {
  cpu::CpuDevice device(1);
  const net::Network network(import.asked.output / "network.json", 1);
  const auto factory = layers::cpu::make_cpu_factory(device);
  net::Net net(network, *factory, {.training = false, .keep = {layer}});
  const trainer::MatchReport match =
      trainer::load_weights(import.asked.output / "weights.safetensors", trainer::weights_of(net));
  CHECK(match.missing.empty());
  CHECK(match.unused.empty());
  CHECK(match.different.empty());
  net.set_input(input);
  layers::StepContext step;
  step.phase = layers::Phase::kTest;
  step.labels = labels;
  net.forward(step);
  return net.output(layer);
}

constexpr const char* kTwoLayers =
    "name: 'tiny' input: 'data' input_dim: [1, 2, 2, 3]\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
    "  convolution_param { num_output: 3 kernel_h: 1 kernel_w: 2 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip'\n"
    "  inner_product_param { num_output: 2 } }\n";

/// Reference output of these two layers: conv (3, 2, 2) of data (2, 2, 3), then ip, which sums over
/// channels, rows and columns in this order.
Floats by_hand(const Floats& data, const Floats& conv, const Floats& conv_bias, const Floats& ip,
               const Floats& ip_bias) {
  Floats middle;
  for (size_t o = 0; o < 3; ++o)
    for (size_t y = 0; y < 2; ++y)
      for (size_t x = 0; x < 2; ++x) {
        float sum = conv_bias[o];
        for (size_t c = 0; c < 2; ++c)
          for (size_t k = 0; k < 2; ++k)
            sum += conv[(o * 2 + c) * 2 + k] * data[(c * 2 + y) * 3 + x + k];
        middle.push_back(sum);
      }
  Floats out;
  for (size_t o = 0; o < 2; ++o) {
    float sum = ip_bias[o];
    for (size_t i = 0; i < 12; ++i) sum += ip[o * 12 + i] * middle[i];
    out.push_back(sum);
  }
  return out;
}

/// Weights that make any misplaced value visible.
struct TwoLayers {
  Floats conv = counting(12), conv_bias{1, -2, 3}, ip = counting(24, -7), ip_bias{5, -6};

  Wire model() const {
    return made::layer("conv", {made::blob({3, 2, 1, 2}, conv), made::blob({3}, conv_bias)}) +
           made::layer("ip", {made::blob({2, 12}, ip), made::blob({2}, ip_bias)});
  }
};

}  // namespace

TEST_CASE("weights are imported unchanged, and the net computes the expected output") {
  const TwoLayers two;
  Import import(kTwoLayers, two.model());
  const ImportReport report = import.run();
  CHECK(report.network == "tiny");
  CHECK(report.layers == 2);
  CHECK(report.parameters == 41);
  CHECK(report.tensors == 4);
  CHECK_FALSE(report.job);
  CHECK(import.said.warnings.empty());
  CHECK(import.said.notes.empty());
  CHECK(import.tensor("conv.weight") == two.conv);
  CHECK(import.tensor("conv.bias") == two.conv_bias);
  CHECK(import.tensor("ip.weight") == two.ip);
  CHECK(import.tensor("ip.bias") == two.ip_bias);
  const trainer::SafetensorsFile file(import.asked.output / "weights.safetensors");
  Lines names;
  for (const auto& entry : file.entries()) names.push_back(entry.name);
  CHECK(names == Lines{"conv.weight", "conv.bias", "ip.weight", "ip.bias"});
  CHECK(file.metadata()["parameters"] == "4");
  const Floats data = counting(12, -3);
  CHECK(computed(import, "ip", data) ==
        by_hand(data, two.conv, two.conv_bias, two.ip, two.ip_bias));
}

TEST_CASE("V1 weights with four extents are imported, and transposed weights are restored") {
  const TwoLayers two;
  Import old(kTwoLayers, made::v1_layer("conv", {made::old_blob({3, 2, 1, 2}, two.conv),
                                                 made::old_blob({1, 1, 1, 3}, two.conv_bias)}) +
                             made::v1_layer("ip", {made::old_blob({1, 1, 2, 12}, two.ip),
                                                   made::old_blob({1, 1, 1, 2}, two.ip_bias)}));
  old.run();
  CHECK(old.tensor("ip.weight") == two.ip);
  CHECK(old.tensor("conv.bias") == two.conv_bias);

  Import turned(
      "input: 'data' input_dim: [1, 3, 1, 1]\nlayer { name: 'ip' type: 'InnerProduct' bottom: "
      "'data' "
      "top: 'ip' inner_product_param { num_output: 2 bias_term: false transpose: true } }",
      made::layer("ip", {made::blob({3, 2}, {1, 2, 3, 4, 5, 6})}));
  turned.run();
  CHECK(turned.tensor("ip.weight") == Floats{1, 3, 5, 2, 4, 6});
}

TEST_CASE("batch norm statistics are divided by their factor, and the Scale layer is merged") {
  const std::string norm =
      "input: 'data' input_dim: [1, 2, 1, 1]\n"
      "layer { name: 'n' type: 'BatchNorm' bottom: 'data' top: 'n' }\n";
  const auto stored = [](float factor) {
    return made::layer(
        "n", {made::blob({2}, {6, 9}), made::blob({2}, {12, 3}), made::blob({1}, {factor})});
  };
  Import joined(norm +
                    "layer { name: 's' type: 'Scale' bottom: 'n' top: 'n' scale_param { "
                    "bias_term: true } }",
                stored(3) + made::layer("s", {made::blob({2}, {2, 4}), made::blob({2}, {-1, 1})}));
  joined.run();
  CHECK(joined.tensor("n.scale") == Floats{2, 4});
  CHECK(joined.tensor("n.shift") == Floats{-1, 1});
  CHECK(joined.tensor("n.running_mean") == Floats{2, 3});
  CHECK(joined.tensor("n.running_var") == Floats{4, 1});
  const Floats out = computed(joined, "n", {4, 5});
  CHECK(out[0] == doctest::Approx(2 * (4 - 2) / 2.0 - 1).epsilon(1e-4));
  CHECK(out[1] == doctest::Approx(4 * (5 - 3) / 1.0 + 1).epsilon(1e-4));

  Import alone(norm, stored(0));
  alone.run();
  CHECK(alone.tensor("n.scale") == Floats{1, 1});
  CHECK(alone.tensor("n.shift") == Floats{0, 0});
  CHECK(alone.tensor("n.running_mean") == Floats{0, 0});
}

TEST_CASE("--bgr-to-rgb reverses the channels of the first layer's weights and of the means") {
  const std::string network =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN } "
      "transform_param { crop_size: 1 mean_value: [1, 2, 3] } data_param { batch_size: 4 } }\n"
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
      "convolution_param { num_output: 2 kernel_size: 1 } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { "
      "num_output: 1 bias_term: false } }";
  Import import(network, made::layer("conv", {made::blob({2, 3, 1, 1}, counting(6)),
                                              made::blob({2}, {7, 8})}) +
                             made::layer("ip", {made::blob({1, 2}, {9, 10})}));
  import.asked.bgr_to_rgb = true;
  import.run();
  CHECK(import.tensor("conv.weight") == Floats{3, 2, 1, 6, 5, 4});
  CHECK(import.tensor("conv.bias") == Floats{7, 8});
  CHECK(import.tensor("ip.weight") == Floats{9, 10});
  CHECK(import.json("job.json")["data"]["train"]["transform"]["mean"].dump() == "[3,2,1]");

  Import gray(
      "input: 'data' input_dim: [1, 1, 1, 1] layer { name: 'a' type: 'TanH' bottom: 'data' "
      "top: 'a' }");
  gray.asked.bgr_to_rgb = true;
  CHECK(gray.fault() == "--bgr-to-rgb: expected images of 3 channels, got 1");
}

TEST_CASE("an inference network is imported without a job, unless there is a solver") {
  const std::string network =
      "layer { name: 'd' type: 'Input' top: 'data' input_param { shape { dim: [5, 1, 2, 2] } } }\n"
      "layer { name: 'a' type: 'Softmax' bottom: 'data' top: 'a' }";
  Import import(network);
  CHECK_FALSE(import.run().job);
  CHECK(import.said.warnings.empty());
  CHECK_FALSE(std::filesystem::exists(import.asked.output / "job.json"));
  Import with_solver(network, "", "base_lr: 1 lr_policy: 'fixed' max_iter: 3");
  CHECK(with_solver.run().job);
  CHECK(with_solver.json("job.json")["data"]["batch_per_worker"] == 1);
}

TEST_CASE("an auxiliary input is written to the network, and a note describes its data") {
  Import import(
      "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'pose' top: 'label'\n"
      "  hdf5_data_param { source: 'list.txt' batch_size: 4 } }\n"
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' "
      "inner_product_param { num_output: 3 } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'pose' top: 'b' "
      "inner_product_param { num_output: 3 } }\n"
      "layer { name: 's' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 's' }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 's' bottom: 'label' top: 'loss' }\n");
  import.asked.input = SampleShape{1, 4, 4};
  import.asked.extras = {{"pose", {6}}};
  CHECK(import.run().job);
  CHECK(import.json("network.json")["inputs"].dump() == R"([{"name":"pose","shape":[6]}])");
  const net::Network network(import.asked.output / "network.json", 4);
  CHECK(network.extras() == std::vector<AuxiliaryInput>{{"pose", {6}}});
  CHECK(import.lines_with(import.said.notes, "auxiliary inputs").size() == 1);
}

TEST_CASE("a mean file becomes the mean image of the job") {
  const std::string network =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' transform_param { mean_file: "
      "'somewhere/mean.binaryproto' } data_param { batch_size: 4 } }\n"
      "layer { name: 'a' type: 'TanH' bottom: 'data' top: 'a' }";
  Import import(network);
  import.asked.input = SampleShape{3, 1, 2};
  import.write("mean.binaryproto", made::old_blob({1, 3, 1, 2}, counting(6)));
  import.run();
  CHECK(import.json("job.json")["data"]["train"]["transform"]["mean_image"] == "mean.pfm");
  const auto bytes = data::made::read(import.asked.output / "mean.pfm");
  CHECK(data::parse_pfm(bytes, "mean.pfm").values == Floats{1, 3, 5, 2, 4, 6});

  Import missing(network);
  missing.asked.input = SampleShape{3, 1, 2};
  missing.run();
  CHECK(missing.lines_with(missing.said.warnings, "mean_file").size() == 1);
}

TEST_CASE("the matrix of an infogain loss is stored in the network") {
  const auto network = [](const std::string& more) {
    return "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { batch_size: 4 } "
           "}\n"
           "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' "
           "inner_product_param { num_output: 2 } }\n"
           "layer { name: 'l' type: 'InfogainLoss' bottom: 'a' bottom: 'label' " +
           more + " }";
  };
  const std::string given = "infogain_loss_param { source: 'somewhere/h.binaryproto' }";
  const auto import_of = [&](const std::string& more, const Floats& matrix) {
    auto import = std::make_unique<Import>(network(more));
    import->asked.input = SampleShape{3, 1, 2};
    if (!matrix.empty()) {
      const auto side = static_cast<uint64_t>(std::sqrt(matrix.size()));
      import->write("h.binaryproto", made::old_blob({1, 1, side, side}, matrix));
    }
    return import;
  };
  const auto import = import_of(given, {1, 0.5F, -2, 4});
  import->run();
  CHECK(import->json("network.json")["layers"][1] ==
        Json::parse(R"({"name": "l", "type": "infogain_loss", "matrix": [1, 0.5, -2, 4]})"));

  CHECK(import_of(given, {})->fault() ==
        "n.prototxt:3:90: \"source\": expected \"somewhere/h.binaryproto\", or a file of that name "
        "next to the prototxt, got neither");
  CHECK(import_of("", {})->fault() ==
        "n.prototxt:3:1: layer \"l\" (InfogainLoss): expected infogain_loss_param { source: "
        "\"FILE.binaryproto\" }, got no matrix");
  CHECK(import_of("bottom: 'a'", {})->fault() ==
        "n.prototxt:3:40: layer \"l\" (InfogainLoss): Poseidon cannot read the matrix from a third "
        "bottom: expected infogain_loss_param { source: \"FILE.binaryproto\" }");
  CHECK(
      import_of(given, {1, HUGE_VALF, 0, 1})->fault() ==
      "n.prototxt:3:90: \"source\": the matrix of h.binaryproto holds a value that is not finite");
  CHECK(import_of(given, {1, 0, 0, 0, 1, 0, 0, 0, 1})
            ->fault()
            .find("[infogain_loss 'l'] \"matrix\": expected 2 x 2 numbers for 2 classes, got 9") !=
        std::string::npos);
}

TEST_CASE("weights that do not fit are refused, and unused weights are reported") {
  const TwoLayers two;
  const Wire conv =
      made::layer("conv", {made::blob({3, 2, 1, 2}, two.conv), made::blob({3}, {1, 2, 3})});
  Import shape(kTwoLayers,
               conv + made::layer("ip", {made::blob({12, 2}, two.ip), made::blob({2}, {1, 2})}));
  CHECK(shape.fault() == "m.caffemodel: tensor \"ip.weight\": expected the shape 2x12, got 12x2");
  Import count(kTwoLayers, conv + made::layer("ip", {made::blob({2, 12}, two.ip)}));
  CHECK(count.fault() == "m.caffemodel: layer \"ip\": expected 2 tensors, got 1");
  Import infinite(kTwoLayers, made::layer("conv", {made::blob({3, 2, 1, 2}, two.conv),
                                                   made::blob({3}, {1, HUGE_VALF, 3})}));
  CHECK(infinite.fault() == "m.caffemodel: tensor \"conv.bias\" holds a value that is not finite");
  Import nothing(kTwoLayers, made::layer("other", {made::blob({1}, {1})}));
  CHECK(nothing.fault() == "m.caffemodel: no layer has the name of a network layer");
  CHECK(nothing.said.warnings.empty());
  Import empty(kTwoLayers, made::layer("conv", {}));
  CHECK(empty.fault() == "m.caffemodel: expected layers with tensors, got none");
  CHECK(empty.said.warnings.empty());

  Import part(kTwoLayers, conv + made::layer("fc1000", {made::blob({1}, {1})}));
  CHECK(part.run().tensors == 2);
  CHECK(part.lines_with(part.said.warnings, "") ==
        Lines{"m.caffemodel: layer \"ip\" (InnerProduct) has no weights in this file: its fillers "
              "set the initial values"});
  CHECK(
      part.lines_with(part.said.notes, "") ==
      Lines{"m.caffemodel: the weights of \"fc1000\" are ignored: the network has no such layer"});
}

TEST_CASE("errors of layers are reported with the position in the prototxt") {
  Import import(
      "input: 'data' input_dim: [1, 3, 4, 4]\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'\n"
      "  convolution_param { num_output: 2 kernel_size: 7 } }");
  CHECK(
      import.fault() ==
      "n.prototxt:2:1: layer \"c\" (Convolution): [convolution 'c'] kernel spans 7 but the padded "
      "input has only 4 rows");
}

TEST_CASE("an import refuses a folder with other files, and a missing solver") {
  Import import(kTwoLayers);
  import.write("out/mine", "x");
  CHECK(import.without_folder(error_of<ConfigError>([&] { import.run(); })) ==
        "out: exists already; expected a new or empty folder, or --force, which overwrites an "
        "earlier import there");
  Import missing(kTwoLayers);
  missing.asked.solver = missing.folder / "none.prototxt";
  CHECK(missing.fault().find("none.prototxt: cannot be opened") != std::string::npos);
}

TEST_CASE("sample shapes on the command line are parsed, and malformed ones are refused") {
  CHECK(parse_sample_shape("3x227x224") == SampleShape{3, 227, 224});
  for (const char* wrong : {"", "3", "3x2", "3x2x", "3x2x1x", "0x1x1", "3,2,1", "ax1x1", "3x-1x1",
                            "3x1x99999999999999999999"})
    CHECK(error_of<ConfigError>([&] { parse_sample_shape(wrong); }) ==
          std::string("expected CHANNELSxHEIGHTxWIDTH such as 3x227x227, got ") + wrong);
}

namespace {

/// Imports one of the networks in this folder.
ImportReport import_network(const std::string& name, Import& import) {
  import.asked.prototxt = std::filesystem::path(test::source_folder()) / "tests/importer/networks" /
                          (name + ".prototxt");
  return import.run();
}

}  // namespace

TEST_CASE("classical networks have their published parameter counts") {
  struct Known {
    std::string name;
    SampleShape shape;
    int64_t parameters;
    size_t losses;
  };
  const std::array known{
      Known{"lenet", {1, 28, 28}, 431080, 1}, Known{"cifar10_quick", {3, 32, 32}, 145578, 1},
      Known{"caffenet", {}, 60965224, 1},     Known{"googlenet", {}, 13378280, 3},
      Known{"vgg16_v1", {}, 138357544, 0},    Known{"mnist_siamese", {2, 28, 28}, 431102, 1}};
  for (const Known& each : known) {
    CAPTURE(each.name);
    Import import("", "", "base_lr: 0.01 lr_policy: 'fixed' max_iter: 10");
    if (each.shape[0] > 0) import.asked.input = each.shape;
    if (each.losses == 0) import.asked.solver = "";
    CHECK(import_network(each.name, import).parameters == each.parameters);
    size_t losses = 0;
    const Json network = import.json("network.json");
    for (const Json& layer : network["layers"])
      losses += layer["type"] == "softmax_loss" || layer["type"] == "contrastive_loss" ? 1 : 0;
    CHECK(losses == each.losses);
    const Lines& warnings = import.said.warnings;
    // Its mean file is not in this folder.
    CHECK(warnings.size() == (each.name == "cifar10_quick" ? 1 : 0));
  }
}

TEST_CASE("shared weights come from the first layer, whether or not other layers repeat them") {
  const std::string network =
      "input: 'data' input_dim: [1, 1, 1, 3]\n"
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' param { name: 'w' }\n"
      "  inner_product_param { num_output: 3 bias_term: false } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' }\n"
      "  inner_product_param { num_output: 3 bias_term: false } }\n";
  const Floats weight{1, 2, 0, 0, 1, 0, 3, 0, 1};
  const Wire owner = made::layer("a", {made::blob({3, 3}, weight)});
  for (const Wire& model : {owner, owner + made::layer("b", {made::blob({3, 3}, weight)})}) {
    Import import(network, model);
    CHECK(import.run().tensors == 1);
    CHECK(import.said.warnings.empty());
    CHECK(computed(import, "b", {1, 1, 1}) == Floats{5, 1, 13});
  }
}

TEST_CASE("an imported network trains its TRAIN layers and tests its TEST layers") {
  const std::string network =
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN } "
      "data_param { batch_size: 4 } }\n"
      "layer { name: 'd' type: 'Data' top: 'data' top: 'label' include { phase: TEST } "
      "data_param { batch_size: 4 } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
      "inner_product_param { num_output: 2 } }\n"
      "layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'ip' include { phase: TRAIN } }\n"
      "layer { name: 'double' type: 'Power' bottom: 'ip' top: 'ip' include { phase: TEST } "
      "power_param { scale: 2 } }\n"
      "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' "
      "include { phase: TEST } }\n"
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";
  Import import(network, made::layer("ip", {made::blob({2, 3}, {1, 2, 3, 4, 5, 6}),
                                            made::blob({2}, {7, 8})}));
  import.asked.input = SampleShape{3, 1, 1};
  CHECK(import.run().job);
  CHECK(import.json("job.json")["data"].contains("test"));
  const Json layers = import.json("network.json")["layers"];
  REQUIRE(layers.size() == 6);
  CHECK(layers[2].dump() == R"({"name":"double","phase":"test","type":"power","scale":2})");
  CHECK(layers[3].dump() == R"({"name":"accuracy","phase":"test","type":"accuracy"})");
  CHECK(layers[4].dump() == R"({"name":"loss","phase":"train","type":"softmax_loss"})");
  CHECK(layers[5].dump() ==
        R"({"name":"loss","phase":"test","input":"double","type":"softmax_loss"})");
  CHECK(computed(import, "double", {1, 1, 1}, {0}) == Floats{2 * (6 + 7), 2 * (15 + 8)});
}

TEST_CASE("the imported LeNet solver equals configs/lenet-mnist.json") {
  Import import("");
  import.asked.solver = std::filesystem::path(test::source_folder()) /
                        "tests/importer/networks/lenet_solver.prototxt";
  import.asked.input = SampleShape{1, 28, 28};
  CHECK(import_network("lenet", import).job);
  Json imported = import.json("job.json");
  const Json ours =
      read_json(std::filesystem::path(test::source_folder()) / "configs/lenet-mnist.json");
  for (const char* key : {"type", "learning_rate", "momentum", "weight_decay", "schedule"})
    CHECK(imported["optimizer"][key] == ours["optimizer"][key]);
  for (const char* key : {"steps", "test_every", "checkpoint_every", "log_every"})
    CHECK(imported["train"][key] == ours["train"][key]);
  CHECK(imported["data"]["batch_per_worker"] == 64);
  CHECK(imported["data"]["train"]["transform"] == ours["data"]["train"]["transform"]);
  CHECK_FALSE(imported["data"]["test"].contains("transform"));
}

TEST_CASE("layers with the same name receive their weights in network order") {
  const std::string network =
      "name: 'twins' input: 'x' input_shape { dim: 1 dim: 1 dim: 1 dim: 2 }\n"
      "layer { name: 'same' type: 'Scale' bottom: 'x' top: 'a' }\n"
      "layer { name: 'same' type: 'ReLU' bottom: 'a' top: 'r' }\n"
      "layer { name: 'same' type: 'Scale' bottom: 'r' top: 'b' }\n";
  const Wire three = made::layer("same", {made::blob({1}, {3})}),
             five = made::layer("same", {made::blob({1}, {5})}),
             seven = made::layer("same", {made::blob({1}, {7})});
  Import both(network, three + five + seven);
  CHECK(both.run().tensors == 2);
  CHECK(both.tensor("same.scale") == Floats{3});
  const auto second = both.json("network.json")["layers"][2]["name"].get<std::string>();
  CHECK(both.tensor(second + ".scale") == Floats{5});
  CHECK(both.lines_with(both.said.notes, "are ignored") ==
        Lines{"m.caffemodel: the weights of \"same\" are ignored: the network has no further layer "
              "of that name"});
  Import one(network, three);
  CHECK(one.run().tensors == 1);
  CHECK(one.lines_with(one.said.warnings, "has no weights in this file").size() == 1);
}

TEST_CASE("weights in another format are refused, and the error names the format") {
  using namespace std::string_literals;
  Import state(kTwoLayers, "\x08\xe8\7\x12\x05x.cfm"s);
  CHECK(state.fault() ==
        "m.caffemodel: is the state of a Caffe solver, which holds no weights; expected the "
        ".caffemodel of the same iteration");
  Import hdf5(kTwoLayers, "\x89HDF\r\n\x1a\n and more"s);
  CHECK(
      hdf5.fault().starts_with("m.caffemodel: is an HDF5 file of Caffe; expected its binary form"));
  Import swapped(kTwoLayers);
  swapped.asked.prototxt = swapped.write("n.caffemodel", "\x0a\1n");
  CHECK(swapped.without_folder(error_of<ConfigError>([&] { swapped.run(); })) ==
        "n.caffemodel: expected a prototxt, got weights; pass a .caffemodel with --weights");
}

TEST_CASE("weights that start at 0 cause a warning, unless weights are imported") {
  const TwoLayers two;
  const std::string trained =
      std::string(kTwoLayers) +
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
      "input: 'label' input_dim: [1, 1, 1, 1]\n";
  Import zeros(trained);
  zeros.run();
  CHECK(zeros.lines_with(zeros.said.warnings, "weight_filler") ==
        Lines{"n.prototxt:2:1: without a \"weight_filler\", all weights start at 0, as in Caffe: "
              "all outputs of conv are equal and stay equal; set weight_filler { type: \"xavier\" "
              "} or pass --weights"});
  Import given(trained, two.model());
  given.run();
  CHECK(given.lines_with(given.said.warnings, "weight_filler").empty());
}

TEST_CASE("an earlier import is overwritten only with --force") {
  const TwoLayers two;
  Import import(kTwoLayers, two.model());
  import.run();
  CHECK(error_of<ConfigError>([&] { import.run(); })
            .ends_with("exists already; expected a new or empty folder, or --force, which "
                       "overwrites an earlier import there"));
  import.asked.force = true;
  import.asked.weights = "";
  import.run();
  CHECK_FALSE(std::filesystem::exists(import.asked.output / "weights.safetensors"));
}

TEST_CASE("test data without a transform stay untransformed, as in Caffe") {
  const auto network = [](const std::string& training) {
    return "name: 't'\n"
           "layer { name: 'd' type: 'Data' top: 'x' top: 'y' include { phase: TRAIN }" +
           training +
           " data_param { batch_size: 4 } }\n"
           "layer { name: 'd' type: 'Data' top: 'x' top: 'y' include { phase: TEST }\n"
           "  data_param { batch_size: 4 } }\n"
           "layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'fc'\n"
           "  inner_product_param { num_output: 10 weight_filler { type: 'xavier' } } }\n"
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'y' top: 'loss' }\n";
  };
  Import scaled(network(" transform_param { scale: 0.1 }"));
  scaled.asked.input = SampleShape{3, 8, 8};
  scaled.run();
  CHECK(scaled.json("job.json")["data"]["test"]["transform"] == Json::object());
  CHECK(scaled.lines_with(scaled.said.warnings, "transform_param") ==
        Lines{"n.prototxt:3:1: layer \"d\" (Data) has no \"transform_param\", so Caffe does not "
              "transform test samples: the \"transform\" of data.test in job.json is empty"});
  // Tests never mirror, whatever the transform says.
  for (const char* same : {"", " transform_param { mirror: true }"}) {
    Import plain(network(same));
    plain.asked.input = SampleShape{3, 8, 8};
    plain.run();
    CHECK_FALSE(plain.json("job.json")["data"]["test"].contains("transform"));
  }
}

TEST_CASE("a batch norm that Caffe tests with batch statistics causes a warning") {
  const auto warned = [](const std::string& rule) {
    Import import(
        "name: 't' input: 'x' input_dim: [1, 2, 2, 2]\n"
        "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'b' " +
        rule + " }\n");
    import.run();
    return import.said.warnings.size() == 1 ? import.said.warnings[0] : "";
  };
  CHECK(warned("batch_norm_param { use_global_stats: false }")
            .ends_with("layer \"b\" (BatchNorm): Caffe tests with the statistics of each batch, "
                       "Poseidon with running statistics: accuracies differ"));
  CHECK(warned("batch_norm_param { use_global_stats: true }")
            .find("Poseidon normalizes with batch statistics") != std::string::npos);
  CHECK(warned("") == "");
}

}  // namespace poseidon::importer
