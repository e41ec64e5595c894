#include "tests/cuda_plans/plan_table.h"

#include <algorithm>
#include <iomanip>
#include <sstream>

#include "core/error.h"
#include "tests/cuda_plans/gpus.h"

namespace poseidon::test {

namespace {

using layers::cuda::ConvolutionProblem;
using layers::cuda::CudnnConvolutions;
using Pass = ConvolutionProblem::Pass;

constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights};

size_t tensor_bytes(const layers::Convolution& geometry, DataType type) {
  const int64_t weight = geometry.outputs * geometry.input.channels() / geometry.groups *
                         geometry.kernel[0] * geometry.kernel[1];
  return static_cast<size_t>(geometry.input.count() + geometry.output.count() + weight) *
         bytes_of(type);
}

ChosenPlan chosen_plan(const NamedConvolution& convolution, const ConvolutionProblem& problem,
                       const CudnnConvolutions& planner) {
  const auto product = planner.plan(problem);
  return {.layer = convolution.layer,
          .geometry = layers::cuda::geometry_text(problem.geometry),
          .circumstances = {},
          .plan = product->plan(),
          .workspace_bytes = product->workspace_bytes(),
          .tensor_bytes = tensor_bytes(problem.geometry, problem.type)};
}

/// The content of a table: its heading, and a choice for each "geometry, circumstances".
struct ReadTable {
  std::string heading;
  std::map<std::string, std::string> choices;
};

ReadTable read_table(std::string_view table) {
  ReadTable read;
  std::istringstream lines{std::string(table)};
  std::string geometry;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) {
      read.heading += line + "\n";
    } else if (line.starts_with("  ")) {
      const size_t choice = line.find(": ");
      read.choices[geometry + ", " + line.substr(2, choice - 2)] = line.substr(choice + 2);
    } else {
      geometry = line;
    }
  }
  return read;
}

}  // namespace

std::vector<ChosenPlan> chosen_plans(const Convolutions& convolutions) {
  std::vector<ChosenPlan> plans;
  const std::vector<layers::cuda::CudnnDevice> gpus = described_gpus();
  for (const NamedConvolution& convolution : convolutions.all())
    for (const layers::cuda::CudnnDevice& gpu : gpus)
      for (const NamedPrecision& precision : kPrecisions) {
        const CudnnConvolutions planner(gpu, {.precision = precision.precision});
        for (const Pass pass : kPasses) {
          plans.push_back(
              chosen_plan(convolution, {pass, *convolution.definition, precision.type}, planner));
          plans.back().circumstances =
              text(gpu.name(), " ", precision.name, " ", layers::cuda::pass_name(pass));
          plans.back().strict = precision.precision == poseidon::cuda::Precision::kFp32;
        }
      }
  return plans;
}

std::string fault_of(const ChosenPlan& chosen) {
  constexpr size_t kAlways = size_t{64} << 20;
  const layers::cuda::ConvolutionPlan& plan = chosen.plan;
  const size_t most = std::max(kAlways, 2 * chosen.tensor_bytes);
  if (plan.name.empty()) return "has no name";
  if (chosen.strict && (plan.tensor_cores || plan.rounds_factors)) return "rounds fp32 factors";
  if (plan.rounds_sums) return "rounds sums";
  if (plan.nondeterministic) return "is not deterministic";
  if (chosen.workspace_bytes > most || chosen.workspace_bytes < plan.workspace_bytes)
    return text("takes ", chosen.workspace_bytes, " bytes of workspace, cuDNN ",
                plan.workspace_bytes, ", at most ", most);
  return "";
}

std::string table_text(const std::vector<ChosenPlan>& plans) {
  std::ostringstream out;
  out << "# cuDNN " << layers::cuda::cudnn_version()
      << ": engine and workspace of each convolution, by the fixed rule.\n"
      << "# Made by cuda_plans; checked by test_cuda_plans.\n";
  std::string geometry;
  for (const ChosenPlan& chosen : plans) {
    if (geometry != chosen.geometry) out << chosen.layer << ": " << chosen.geometry << "\n";
    geometry = chosen.geometry;
    out << "  " << chosen.circumstances << ": " << chosen.plan.name << ", "
        << chosen.workspace_bytes << "\n";
  }
  return out.str();
}

std::vector<std::string> differences(std::string_view recorded, std::string_view made) {
  const ReadTable before = read_table(recorded), now = read_table(made);
  std::vector<std::string> found;
  if (before.heading != now.heading)
    found.push_back("was recorded as\n" + before.heading + "and is now\n" + now.heading);
  for (const auto& [key, choice] : now.choices) {
    const auto was = before.choices.find(key);
    if (was == before.choices.end())
      found.push_back(key + ": is new: " + choice);
    else if (was->second != choice)
      found.push_back(key + ": was " + was->second + "; is " + choice);
  }
  for (const auto& [key, choice] : before.choices)
    if (!now.choices.contains(key)) found.push_back(key + ": is gone, was " + choice);
  return found;
}

}  // namespace poseidon::test
