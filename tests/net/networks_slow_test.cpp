// The networks of configs/networks at full size, compared with PyTorch: the loss and the norm of
// each parameter's gradient. tests/reference/network_golden.py wrote the expected numbers. It
// documents how values and batches are generated.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/cpu/cpu_device.h"
#include "core/json.h"
#include "core/philox.h"
#include "layers/cpu/cpu_layer.h"
#include "net/net.h"
#include "tests/support/folders.h"
#include "tests/support/nightly.h"

using namespace poseidon;

namespace {

namespace fs = std::filesystem;

const fs::path kSource = test::source_folder();
const fs::path kNetworks = kSource / "configs/networks";
const fs::path kGolden = kSource / "tests/reference/golden/networks";
constexpr int64_t kBatch = 2;

RandomStream random_stream(uint64_t stream, uint64_t index) {
  return {11, RandomPurpose::kGeneration, stream, index};
}

/// FNV-1a hash.
uint64_t name_hash(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

void drop_nothing(Json& json) {
  if (json.is_object() && json.value("type", Json()) == "dropout") json["probability"] = 0;
  if (json.is_structured())
    for (Json& member : json) drop_nothing(member);
}

net::Network without_dropout(const std::string& name) {
  const fs::path file = kNetworks / (name + ".json");
  Json json = read_json(file);
  drop_nothing(json);
  return {json, file.string(), kBatch};
}

std::vector<float> first_values(const net::Parameter& parameter) {
  float low = -0.1F, high = 0.1F;
  if (parameter.spec.name == "scale") {
    low = 0.5F;
    high = 1.5F;
  } else if (parameter.spec.name == "weight") {
    high = static_cast<float>(std::sqrt(6.0 / static_cast<double>(parameter.spec.fan_in)));
    low = -high;
  }
  RandomStream random = random_stream(name_hash(parameter.name), 0);
  std::vector<float> values(static_cast<size_t>(parameter.spec.shape.count()));
  for (float& value : values) value = random.next_uniform(low, high);
  return values;
}

/// Appends `count` values for each sample.
void add_values(uint64_t stream, int64_t count, std::vector<float>& values) {
  for (uint64_t sample = 0; sample < kBatch; ++sample) {
    RandomStream random = random_stream(stream, sample);
    for (int64_t i = 0; i < count; ++i) values.push_back(random.next_uniform(-1, 1));
  }
}

void fill_input(net::Net& net) {
  std::vector<float> input, extras;
  add_values(1, net.input_shape().sample_count(), input);
  uint64_t stream = 3;
  for (const AuxiliaryInput& extra : net.batch_receiver().extras())
    add_values(stream++, extra.count(), extras);
  net.set_input(input, extras);
}

/// Random class labels, or 0 and 1 if a loss has no classes.
std::vector<int32_t> labels_for(const net::Network& network) {
  const auto classes = static_cast<uint32_t>(std::max<int64_t>(network.classes(), 2));
  std::vector<int32_t> labels;
  for (uint64_t sample = 0; sample < kBatch; ++sample)
    labels.push_back(static_cast<int32_t>(random_stream(2, sample).next_word() % classes));
  return labels;
}

/// Forward and backward pass over the batch of the golden values.
void compute(net::Net& net, const net::Network& network) {
  for (const net::Parameter& parameter : net.parameters())
    net.values().set_canonical(parameter, first_values(parameter));
  fill_input(net);
  const std::vector<int32_t> labels = labels_for(network);
  layers::StepContext context;
  context.labels = labels;
  context.loss_scale = 1.0F / kBatch;
  net.forward(context);
  net.backward(context);
}

double weighted_loss(const net::Net& net) {
  double sum = 0;
  for (const auto& [scalar, values] : net.read_scalars())
    for (const float value : values)
      if (scalar.is_loss) sum += scalar.weight * static_cast<double>(value) / kBatch;
  return sum;
}

double gradient_length(const net::CanonicalValues& values, const net::Parameter& parameter) {
  std::vector<float> gradient(static_cast<size_t>(parameter.spec.shape.count()));
  values.read_packed(parameter, parameter.gradient, gradient);
  double squares = 0;
  for (const float value : gradient)
    squares += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(squares);
}

/// Allows twice PyTorch's error in single precision, at least `floor`, both relative. Also allows
/// an absolute error of `nothing`: a number that is zero in theory has rounding noise in any
/// precision.
void check_near(double got, double exact, double distance_of_pytorch, double floor,
                double nothing) {
  CAPTURE(got);
  CAPTURE(exact);
  const double relative = std::max(std::min(2 * distance_of_pytorch, 1.0), floor);
  CHECK(std::abs(got - exact) <= std::max(relative * std::abs(exact), nothing));
}

/// 1e-6 times the norm of the gradient of all parameters.
double noise_floor(const Json& gradients) {
  double squares = 0;
  for (const Json& each : gradients) squares += std::pow(each[0].get<double>(), 2);
  return 1e-6 * std::sqrt(squares);
}

/// Choices that compute all convolutions without Winograd's algorithm.
net::Choices direct(const net::Network& network) {
  net::Choices choices;
  for (const net::Node& node : network.nodes())
    if (node.definition->type() == "convolution")
      choices[node.definition->name] = {"", "direct", "direct", "direct"};
  return choices;
}

void compare(const net::Network& network, const Json& golden, const net::Choices& choices,
             double floor) {
  CAPTURE(floor);
  cpu::CpuDevice device(0);
  const auto factory = layers::cpu::make_cpu_factory(device);
  net::Net net(network, *factory, {.training = true, .choices = choices});
  net.values().initialize(1);
  compute(net, network);
  check_near(weighted_loss(net), golden["loss"], golden["distance"], floor, 0);
  const double nothing = noise_floor(golden["gradients"]);
  CHECK(net.parameters().size() == golden["gradients"].size());
  for (const net::Parameter& parameter : net.parameters()) {
    CAPTURE(parameter.name);
    REQUIRE(golden["gradients"].contains(parameter.name));
    const Json& expected = golden["gradients"][parameter.name];
    check_near(gradient_length(net.values(), parameter), expected[0], expected[1], floor, nothing);
  }
}

/// Compares once with PyTorch's algorithms, and once with our usual ones. Winograd's algorithm has
/// larger rounding errors, which can switch a relu whose input is near zero. resnet18 has the
/// largest differences: 1.9e-4 with 16 lanes (Zen 4), 3.5e-4 with 8 lanes (Zen 3).
void compare_with_pytorch(const std::string& name) {
  const Json golden = read_json(kGolden / (name + ".json"));
  const net::Network network = without_dropout(name);
  compare(network, golden, direct(network), 1e-4);
  compare(network, golden, {}, 5e-4);
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
  return names;
}

}  // namespace

TEST_CASE("each network has golden values") { CHECK(names_in(kNetworks) == names_in(kGolden)); }

TEST_CASE("alexnet matches PyTorch" * poseidon::test::nightly()) {
  compare_with_pytorch("alexnet");
}
TEST_CASE("alexnet-torchvision matches PyTorch" * poseidon::test::nightly()) {
  compare_with_pytorch("alexnet-torchvision");
}
TEST_CASE("caffenet matches PyTorch" * poseidon::test::nightly()) {
  compare_with_pytorch("caffenet");
}
TEST_CASE("cifar10_full matches PyTorch") { compare_with_pytorch("cifar10_full"); }
TEST_CASE("cifar10_quick matches PyTorch") { compare_with_pytorch("cifar10_quick"); }
TEST_CASE("efficientnet_b0 matches PyTorch") { compare_with_pytorch("efficientnet_b0"); }
TEST_CASE("googlenet matches PyTorch") { compare_with_pytorch("googlenet"); }
TEST_CASE("googlenet-plain matches PyTorch") { compare_with_pytorch("googlenet-plain"); }
TEST_CASE("googlenet-torchvision matches PyTorch") {
  compare_with_pytorch("googlenet-torchvision");
}
TEST_CASE("googlenet-torchvision-plain matches PyTorch") {
  compare_with_pytorch("googlenet-torchvision-plain");
}
TEST_CASE("inception_v3 matches PyTorch") { compare_with_pytorch("inception_v3"); }
TEST_CASE("inception_v3-plain matches PyTorch") { compare_with_pytorch("inception_v3-plain"); }
TEST_CASE("lenet matches PyTorch") { compare_with_pytorch("lenet"); }
TEST_CASE("lenet-siamese matches PyTorch") { compare_with_pytorch("lenet-siamese"); }
TEST_CASE("lenet-two-inputs matches PyTorch") { compare_with_pytorch("lenet-two-inputs"); }
TEST_CASE("mobilenet_v2 matches PyTorch") { compare_with_pytorch("mobilenet_v2"); }
TEST_CASE("resnet18 matches PyTorch") { compare_with_pytorch("resnet18"); }
TEST_CASE("resnet20 matches PyTorch") { compare_with_pytorch("resnet20"); }
TEST_CASE("resnet50 matches PyTorch") { compare_with_pytorch("resnet50"); }
TEST_CASE("resnet152 matches PyTorch" * poseidon::test::nightly()) {
  compare_with_pytorch("resnet152");
}
TEST_CASE("vgg11 matches PyTorch" * poseidon::test::nightly()) { compare_with_pytorch("vgg11"); }
TEST_CASE("vgg16 matches PyTorch" * poseidon::test::nightly()) { compare_with_pytorch("vgg16"); }
TEST_CASE("vgg19 matches PyTorch" * poseidon::test::nightly()) { compare_with_pytorch("vgg19"); }
TEST_CASE("vgg19-22k matches PyTorch" * poseidon::test::nightly()) {
  compare_with_pytorch("vgg19-22k");
}
