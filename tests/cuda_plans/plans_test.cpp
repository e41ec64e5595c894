// Plans of convolutions, made without a GPU: they exist, equal the stored ones, and follow the
// rules.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/bf16.h"
#include "core/error.h"
#include "tests/cuda_plans/gpus.h"
#include "tests/cuda_plans/plan_table.h"
#include "tests/support/error_of.h"
#include "tests/support/folders.h"

using namespace poseidon;
using namespace poseidon::test;
using layers::cuda::ConvolutionProblem;
using layers::cuda::CudnnConvolutions;
using layers::cuda::CudnnDevice;
using poseidon::cuda::Precision;
using Pass = ConvolutionProblem::Pass;

namespace {

const Convolutions& convolutions() {
  static const Convolutions all;
  return all;
}

const std::vector<ChosenPlan>& plans() {
  static const std::vector<ChosenPlan> all = chosen_plans(convolutions());
  return all;
}

std::string recorded_table() {
  std::ifstream file(std::filesystem::path(test::source_folder()) / "tests/cuda_plans/plans.txt");
  REQUIRE(file);
  std::ostringstream contents;
  contents << file.rdbuf();
  return contents.str();
}

const layers::Convolution& convolution(const std::string& layer) {
  const auto found = std::ranges::find(convolutions().all(), layer, &NamedConvolution::layer);
  REQUIRE(found != convolutions().all().end());
  return *found->definition;
}

/// The number of plans by a planner with these settings that violate the rules. `strict`: the rules
/// of fp32.
int faults(const poseidon::cuda::Settings& settings, bool strict) {
  int found = 0;
  const auto gpus = described_gpus();
  for (const NamedConvolution& each : convolutions().all()) {
    const CudnnConvolutions planner(gpus.front(), settings);
    const auto product = planner.plan({Pass::kBackwardData, *each.definition, DataType::kFp32});
    ChosenPlan chosen;
    chosen.plan = product->plan();
    chosen.workspace_bytes = product->workspace_bytes();
    chosen.tensor_bytes = size_t{1} << 40;
    chosen.strict = strict;
    found += fault_of(chosen).empty() ? 0 : 1;
  }
  return found;
}

/// Sums the bytes of an operation's accesses.
class Visited final : public poseidon::cuda::MemoryVisitor {
 public:
  void reads(const void*, size_t bytes) override { read += bytes; }
  void writes(const void*, size_t bytes) override { written += bytes; }
  size_t read = 0, written = 0;
};

}  // namespace

TEST_CASE("every convolution of every network has plans that follow the rules") {
  CHECK(convolutions().all().size() > 50);
  CHECK(plans().size() == convolutions().all().size() * 27);
  for (const ChosenPlan& chosen : plans()) {
    INFO(chosen.layer, ", ", chosen.circumstances, ": ", chosen.plan.name);
    CHECK(fault_of(chosen) == "");
  }
}

TEST_CASE("the plans equal those in plans.txt") {
  const std::vector<std::string> found = differences(recorded_table(), table_text(plans()));
  constexpr size_t kShown = 60;
  for (size_t i = 0; i < std::min(found.size(), kShown); ++i) MESSAGE(found[i]);
  INFO(found.size(), " differences to tests/cuda_plans/plans.txt, the first ",
       std::min(found.size(), kShown), " above. Where they are wanted: ",
       "build/release/bin/cuda_plans > tests/cuda_plans/plans.txt");
  CHECK(found.empty());
}

TEST_CASE("the checks of this test detect disallowed plans and changes of the table") {
  CHECK(faults({.precision = Precision::kFp32}, true) == 0);
  CHECK(faults({.precision = Precision::kTf32}, false) == 0);
  CHECK(faults({.precision = Precision::kTf32}, true) > 0);
  CHECK(faults({.precision = Precision::kTf32, .deterministic = false}, false) > 0);
  ChosenPlan too_large;
  too_large.plan.name = "eng1";
  too_large.workspace_bytes = (64U << 20) + 1;
  CHECK(fault_of(too_large) == "takes 67108865 bytes of workspace, cuDNN 0, at most 67108864");

  const std::string table = "# one\na: 1x2\n  H200 fp32 forward: eng1, 0\n";
  CHECK(differences(table, table).empty());
  CHECK(differences(table, "# one\na: 1x2\n  H200 fp32 forward: eng2, 0\n") ==
        std::vector<std::string>{"a: 1x2, H200 fp32 forward: was eng1, 0; is eng2, 0"});
  CHECK(differences(table, "# two\n") ==
        std::vector<std::string>{"was recorded as\n# one\nand is now\n# two\n",
                                 "a: 1x2, H200 fp32 forward: is gone, was eng1, 0"});
}

TEST_CASE("a plan can be requested by its name") {
  for (const CudnnDevice& gpu : described_gpus()) {
    CAPTURE(gpu.name());
    const CudnnConvolutions planner(gpu, {.precision = Precision::kBf16});
    const ConvolutionProblem problem{Pass::kForward, convolution("alexnet conv2"), DataType::kBf16};
    const std::vector<std::string> names = planner.alternatives(problem);
    REQUIRE(names.size() > 3);
    CHECK(planner.plan(problem)->name() == names.front());
    for (const std::string& name : names) CHECK(planner.plan(problem, name)->name() == name);
    CHECK(error_of<ConfigError>([&] { planner.plan(problem, "eng99_k2=0"); }) ==
          text("[convolution 'conv2'] forward of 32x96x27x27 to 32x256x27x27, kernel 5x5, stride "
               "1x1, padding 2x2, dilation 1x1, groups 2, bf16, on ",
               gpu.name(), " by cuDNN ", layers::cuda::cudnn_version(),
               ": cannot use the chosen plan \"eng99_k2=0\": cuDNN does not propose it, or cannot "
               "build it; choose another plan with --tune, or with --resume and --replan"));
  }
}

TEST_CASE("every pass of every convolution can be planned by the name of its plan") {
  size_t names = 0;
  for (const CudnnDevice& gpu : described_gpus())
    for (const NamedPrecision& precision : kPrecisions) {
      const CudnnConvolutions planner(gpu, {.precision = precision.precision});
      for (const NamedConvolution& each : convolutions().all())
        for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
          const ConvolutionProblem problem{pass, *each.definition, precision.type};
          const std::vector<std::string> alternatives = planner.alternatives(problem);
          INFO(gpu.name(), " ", precision.name, " ", each.layer);
          REQUIRE(!alternatives.empty());
          // The plan of the fixed rule, and the plan that cuDNN ranks last.
          for (const std::string& name : {alternatives.front(), alternatives.back()})
            CHECK(planner.plan(problem, name)->name() == name);
          CHECK(planner.plan(problem)->name() == alternatives.front());
          names += alternatives.size();
        }
    }
  CHECK(names > 4 * plans().size());
}

TEST_CASE("cuDNN loads the plan of every convolution from its serialized form") {
  const auto gpus = described_gpus();
  for (const NamedPrecision& precision : kPrecisions) {
    const CudnnConvolutions planner(gpus[0], {.precision = precision.precision});
    for (const NamedConvolution& each : convolutions().all())
      for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
        INFO(precision.name, " ", each.layer);
        CHECK(planner.plan({pass, *each.definition, precision.type})->reload() == "");
      }
  }
}

TEST_CASE("with fp32, a named plan that rounds its inputs is rejected") {
  const auto gpus = described_gpus();
  const CudnnConvolutions exact(gpus[0], {.precision = Precision::kFp32});
  const CudnnConvolutions rounding(gpus[0], {.precision = Precision::kTf32});
  const ConvolutionProblem problem{Pass::kForward, convolution("alexnet conv2"), DataType::kFp32};
  int refused = 0;
  for (const std::string& name : rounding.alternatives(problem))
    if (const auto& plan = rounding.plan(problem, name)->plan();
        plan.tensor_cores || plan.rounds_factors) {
      ++refused;
      CHECK(error_of<ConfigError>([&] {
              exact.plan(problem, name);
            }).find("\": it rounds its inputs") != std::string::npos);
    }
  CHECK(refused > 0);
}

TEST_CASE("nondeterministic plans are available only if they are allowed") {
  const auto gpus = described_gpus();
  const CudnnConvolutions careful(gpus[0], {.precision = Precision::kTf32});
  const CudnnConvolutions any(gpus[0], {.precision = Precision::kTf32, .deterministic = false});
  const ConvolutionProblem problem{Pass::kBackwardWeights, convolution("alexnet conv2"),
                                   DataType::kFp32};
  int nondeterministic = 0;
  for (const std::string& name : any.alternatives(problem))
    if (any.plan(problem, name)->plan().nondeterministic) {
      ++nondeterministic;
      CHECK(error_of<ConfigError>([&] { careful.plan(problem, name); })
                .ends_with("the chosen plan \"" + name +
                           "\": it is not deterministic, but device.deterministic is true; choose "
                           "another plan with --tune, or with --resume and --replan"));
    }
  CHECK(nondeterministic > 0);
}

TEST_CASE("a product declares the memory that it accesses, and needs its GPU to run") {
  const CudnnConvolutions planner(described_gpus()[0], {.precision = Precision::kBf16});
  const layers::Convolution& geometry = convolution("lenet conv2");
  const auto product = planner.plan({Pass::kBackwardWeights, geometry, DataType::kBf16});
  const size_t weights = static_cast<size_t>(geometry.outputs * geometry.input.channels() *
                                             geometry.kernel[0] * geometry.kernel[1]);
  // The bf16 copy of the gradient is before cuDNN's workspace.
  CHECK(product->workspace_bytes() >= product->plan().workspace_bytes + weights * sizeof(Bf16));
  std::array<std::byte, 8> memory{};
  const auto operation = product->operation(
      {.first = &memory[0], .second = &memory[1], .result = &memory[2], .workspace = &memory[3]});
  Visited visited;
  operation->visit(visited);
  const auto bytes = [](const Shape& shape) {
    return static_cast<size_t>(shape.count()) * sizeof(Bf16);
  };
  CHECK(visited.read ==
        bytes(geometry.input) + bytes(geometry.output) + product->workspace_bytes());
  CHECK(visited.written == weights * sizeof(float) + product->workspace_bytes());
  CHECK(operation->name() == product->name());
  CHECK_THROWS_AS(operation->issue({}), LogicError);
}

TEST_CASE("properties that describe no GPU are rejected") {
  CHECK(error_of<ConfigError>([] { CudnnDevice::described("nothing", "{}"); })
            .starts_with("cuDNN " + layers::cuda::cudnn_version() +
                         " rejects these properties of nothing: {}: "));
}
