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

TEST_CASE("absval computes what PyTorch computes") { check_type("absval"); }
TEST_CASE("accuracy computes what PyTorch computes") { check_type("accuracy"); }
TEST_CASE("argmax computes what PyTorch computes") { check_type("argmax"); }
TEST_CASE("batch_norm computes what PyTorch computes") { check_type("batch_norm"); }
TEST_CASE("bias computes what PyTorch computes") { check_type("bias"); }
TEST_CASE("bnll computes what PyTorch computes") { check_type("bnll"); }
TEST_CASE("clip computes what PyTorch computes") { check_type("clip"); }
TEST_CASE("concat computes what PyTorch computes") { check_type("concat"); }
TEST_CASE("contrastive_loss computes what PyTorch computes") { check_type("contrastive_loss"); }
TEST_CASE("convolution computes what PyTorch computes") { check_type("convolution"); }
TEST_CASE("crop computes what PyTorch computes") { check_type("crop"); }
TEST_CASE("deconvolution computes what PyTorch computes") { check_type("deconvolution"); }
TEST_CASE("dropout computes what PyTorch computes") { check_type("dropout"); }
TEST_CASE("eltwise computes what PyTorch computes") { check_type("eltwise"); }
TEST_CASE("elu computes what PyTorch computes") { check_type("elu"); }
TEST_CASE("euclidean_loss computes what PyTorch computes") { check_type("euclidean_loss"); }
TEST_CASE("exp computes what PyTorch computes") { check_type("exp"); }
TEST_CASE("flatten computes what PyTorch computes") { check_type("flatten"); }
TEST_CASE("hinge_loss computes what PyTorch computes") { check_type("hinge_loss"); }
TEST_CASE("infogain_loss computes what PyTorch computes") { check_type("infogain_loss"); }
TEST_CASE("linear computes what PyTorch computes") { check_type("linear"); }
TEST_CASE("log computes what PyTorch computes") { check_type("log"); }
TEST_CASE("lrn computes what PyTorch computes") { check_type("lrn"); }
TEST_CASE("multinomial_loss computes what PyTorch computes") { check_type("multinomial_loss"); }
TEST_CASE("mvn computes what PyTorch computes") { check_type("mvn"); }
TEST_CASE("pooling computes what PyTorch computes") { check_type("pooling"); }
TEST_CASE("power computes what PyTorch computes") { check_type("power"); }
TEST_CASE("prelu computes what PyTorch computes") { check_type("prelu"); }
TEST_CASE("reduction computes what PyTorch computes") { check_type("reduction"); }
TEST_CASE("relu computes what PyTorch computes") { check_type("relu"); }
TEST_CASE("reshape computes what PyTorch computes") { check_type("reshape"); }
TEST_CASE("scale computes what PyTorch computes") { check_type("scale"); }
TEST_CASE("sigmoid computes what PyTorch computes") { check_type("sigmoid"); }
TEST_CASE("sigmoid_loss computes what PyTorch computes") { check_type("sigmoid_loss"); }
TEST_CASE("silence computes what PyTorch computes") { check_type("silence"); }
TEST_CASE("slice computes what PyTorch computes") { check_type("slice"); }
TEST_CASE("softmax computes what PyTorch computes") { check_type("softmax"); }
TEST_CASE("softmax_loss computes what PyTorch computes") { check_type("softmax_loss"); }
TEST_CASE("swish computes what PyTorch computes") { check_type("swish"); }
TEST_CASE("tanh computes what PyTorch computes") { check_type("tanh"); }
TEST_CASE("threshold computes what PyTorch computes") { check_type("threshold"); }
TEST_CASE("tile computes what PyTorch computes") { check_type("tile"); }

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
