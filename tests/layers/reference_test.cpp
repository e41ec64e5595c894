#include <doctest/doctest.h>

#include <set>

#include "layers/functions.h"
#include "layers/registry.h"
#include "tests/support/golden.h"
#include "tests/support/gradient_check.h"

using namespace poseidon;
using namespace poseidon::test;

namespace {

constexpr double kRelative = 2e-6;

void check_all(const std::vector<Values>& got, const std::vector<Values>& expected,
               const char* what) {
  REQUIRE(got.size() == expected.size());
  for (size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], kRelative, what);
}

void check_golden(Golden golden, Layout layout, int threads) {
  golden.layer.layout = layout;
  golden.layer.threads = threads;
  golden.layer.in_place = threads == 2;
  golden.layer.step.labels = golden.labels;
  const LayerResults got = LayerRunner(golden.layer).run(golden.values);
  check_close(got.output, golden.expected.output, kRelative, "output");
  check_all(got.input_gradients, golden.expected.input_gradients, "input gradient");
  check_all(got.parameter_gradients, golden.expected.parameter_gradients, "parameter gradient");
  check_all(got.statistics, golden.expected.statistics, "statistic");
}

/// Checks all golden files of one layer type.
void check_type(const std::string& type) {
  size_t found = 0;
  for (const auto& file : golden_files()) {
    if (!file.stem().string().starts_with(type)) continue;
    const Golden golden = read_golden(file);
    if (golden.layer.json.at("type") != type) continue;
    ++found;
    CAPTURE(golden.name);
    for (const Layout layout :
         {Layout::kPlain, Layout::kChannelsLast, Layout::kBlocked8, Layout::kBlocked16}) {
      CAPTURE(std::string(layout_name(layout)));
      check_golden(golden, layout, 1);
    }
    check_golden(golden, Layout::kBlocked16, 2);
  }
  CHECK(found > 0);
}

}  // namespace

TEST_CASE("absval matches PyTorch") { check_type("absval"); }
TEST_CASE("accuracy matches PyTorch") { check_type("accuracy"); }
TEST_CASE("argmax matches PyTorch") { check_type("argmax"); }
TEST_CASE("batch_norm matches PyTorch") { check_type("batch_norm"); }
TEST_CASE("bias matches PyTorch") { check_type("bias"); }
TEST_CASE("bnll matches PyTorch") { check_type("bnll"); }
TEST_CASE("clip matches PyTorch") { check_type("clip"); }
TEST_CASE("concat matches PyTorch") { check_type("concat"); }
TEST_CASE("contrastive_loss matches PyTorch") { check_type("contrastive_loss"); }
TEST_CASE("convolution matches PyTorch") { check_type("convolution"); }
TEST_CASE("crop matches PyTorch") { check_type("crop"); }
TEST_CASE("deconvolution matches PyTorch") { check_type("deconvolution"); }
TEST_CASE("dropout matches PyTorch") { check_type("dropout"); }
TEST_CASE("eltwise matches PyTorch") { check_type("eltwise"); }
TEST_CASE("elu matches PyTorch") { check_type("elu"); }
TEST_CASE("euclidean_loss matches PyTorch") { check_type("euclidean_loss"); }
TEST_CASE("exp matches PyTorch") { check_type("exp"); }
TEST_CASE("flatten matches PyTorch") { check_type("flatten"); }
TEST_CASE("hinge_loss matches PyTorch") { check_type("hinge_loss"); }
TEST_CASE("infogain_loss matches PyTorch") { check_type("infogain_loss"); }
TEST_CASE("linear matches PyTorch") { check_type("linear"); }
TEST_CASE("log matches PyTorch") { check_type("log"); }
TEST_CASE("lrn matches PyTorch") { check_type("lrn"); }
TEST_CASE("multinomial_loss matches PyTorch") { check_type("multinomial_loss"); }
TEST_CASE("mvn matches PyTorch") { check_type("mvn"); }
TEST_CASE("pooling matches PyTorch") { check_type("pooling"); }
TEST_CASE("power matches PyTorch") { check_type("power"); }
TEST_CASE("prelu matches PyTorch") { check_type("prelu"); }
TEST_CASE("reduction matches PyTorch") { check_type("reduction"); }
TEST_CASE("relu matches PyTorch") { check_type("relu"); }
TEST_CASE("reshape matches PyTorch") { check_type("reshape"); }
TEST_CASE("scale matches PyTorch") { check_type("scale"); }
TEST_CASE("sigmoid matches PyTorch") { check_type("sigmoid"); }
TEST_CASE("sigmoid_loss matches PyTorch") { check_type("sigmoid_loss"); }
TEST_CASE("silence matches PyTorch") { check_type("silence"); }
TEST_CASE("slice matches PyTorch") { check_type("slice"); }
TEST_CASE("softmax matches PyTorch") { check_type("softmax"); }
TEST_CASE("softmax_loss matches PyTorch") { check_type("softmax_loss"); }
TEST_CASE("swish matches PyTorch") { check_type("swish"); }
TEST_CASE("tanh matches PyTorch") { check_type("tanh"); }
TEST_CASE("threshold matches PyTorch") { check_type("threshold"); }
TEST_CASE("tile matches PyTorch") { check_type("tile"); }

// Functions of one value have an independent formula in functions_test.cpp instead.
TEST_CASE("every layer type has golden values") {
  std::set<std::string> covered;
  for (const auto& file : golden_files())
    covered.insert(read_golden(file).layer.json.at("type").get<std::string>());
  for (const auto& type : layers::layer_types()) {
    if (dynamic_cast<const layers::Function*>(type.make().get()) != nullptr) continue;
    CHECK_MESSAGE(covered.contains(type.name), type.name);
  }
}
