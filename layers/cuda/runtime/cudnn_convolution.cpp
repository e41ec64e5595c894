#include "layers/cuda/runtime/cudnn_convolution.h"

#include <cudnn_frontend.h>

#include <algorithm>
#include <optional>
#include <span>

#include "core/error.h"
#include "layers/cuda/runtime/plan_execution.h"
#include "layers/cuda/runtime/workspace.h"
#include "layers/cuda/widen.h"

namespace poseidon::layers::cuda {

using poseidon::cuda::MemoryVisitor;
using poseidon::cuda::Operation;
using Pass = ConvolutionProblem::Pass;
namespace fe = cudnn_frontend;

namespace {

/// The ids of a problem's tensors in cuDNN's graph, in the order of ProductMemory.
enum TensorId : int64_t { kFirst = 1, kSecond = 2, kResult = 3 };

Shape weight_shape(const Convolution& geometry) {
  return {geometry.outputs, geometry.input.channels() / geometry.groups, geometry.kernel[0],
          geometry.kernel[1]};
}

struct Shapes {
  Shape first, second, result;
};

Shapes shapes_of(const ConvolutionProblem& problem) {
  const Convolution& geometry = problem.geometry;
  const Shape weight = weight_shape(geometry);
  switch (problem.pass) {
    case Pass::kForward: return {geometry.input, weight, geometry.output};
    case Pass::kBackwardData: return {geometry.output, weight, geometry.input};
    case Pass::kBackwardWeights: break;
  }
  return {geometry.output, geometry.input, weight};
}

size_t bytes_of(const Shape& shape, DataType type) {
  return static_cast<size_t>(shape.count()) * poseidon::bytes_of(type);
}

/// True if cuDNN writes the result as bf16 and a kernel then widens it to fp32.
bool is_widened(const ConvolutionProblem& problem) {
  return problem.pass == Pass::kBackwardWeights && problem.type == DataType::kBf16;
}

/// Bytes of the bf16 result that is widened, rounded up to the alignment of a workspace; 0 if there
/// is none. The bf16 result is in the workspace, before cuDNN's part of the workspace.
size_t narrow_bytes(const ConvolutionProblem& problem) {
  if (!is_widened(problem)) return 0;
  const size_t bytes = bytes_of(weight_shape(problem.geometry), problem.type);
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

/// "[convolution 'conv1'] forward of 8x3x..., bf16, on NVIDIA H200 by cuDNN 9.19.0"
std::string problem_text(const ConvolutionProblem& problem, const CudnnDevice& device) {
  return text("[convolution '", problem.geometry.name, "'] ", pass_name(problem.pass), " of ",
              geometry_text(problem.geometry), ", ",
              problem.type == DataType::kBf16 ? "bf16" : "fp32", ", on ", device.name(),
              " by cuDNN ", cudnn_version());
}

/// A cuDNN graph of one convolution, with the plans that cuDNN proposes for it.
class ConvolutionGraph final : public fe::graph::Graph {
 public:
  ConvolutionGraph(const ConvolutionProblem& problem, const CudnnDevice& device);

  /// Builds the plan with this index. Returns nothing if cuDNN cannot build the plan that it
  /// proposed.
  std::optional<ConvolutionPlan> build(int64_t index);
  /// Destroys all plans except the one that was built last.
  void forget_others();
  /// Executes the plan that forget_others() left. Returns the error, or "".
  std::string run(cudnnHandle_t handle, std::span<void*> tensors, void* workspace) const;
  /// Replaces this plan by one that cuDNN loads from the plan's serialized form. Returns the error,
  /// or "".
  std::string reload(const CudnnDevice& device);

 private:
  using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

  fe::graph::Tensor_attributes attributes(TensorId id, const Shape& shape) const;
  Tensor add_operation(const ConvolutionProblem& problem, const Tensor& first,
                       const Tensor& second);
  fe::error_t propose(const CudnnDevice& device);

  const fe::DataType_t type_;
};

std::vector<int64_t> channels_last_strides(const Shape& shape) {
  return {shape.sample_count(), 1, shape.width() * shape.channels(), shape.channels()};
}

std::vector<int64_t> dimensions(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

ConvolutionGraph::ConvolutionGraph(const ConvolutionProblem& problem, const CudnnDevice& device)
    : type_(problem.type == DataType::kBf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT) {
  set_io_data_type(type_);
  set_intermediate_data_type(fe::DataType_t::FLOAT);
  set_compute_data_type(fe::DataType_t::FLOAT);
  const Shapes shapes = shapes_of(problem);
  const Tensor result = add_operation(problem, tensor(attributes(kFirst, shapes.first)),
                                      tensor(attributes(kSecond, shapes.second)));
  result->set_uid(kResult).set_output(true).set_data_type(type_);
  result->set_dim(dimensions(shapes.result)).set_stride(channels_last_strides(shapes.result));
  if (fe::error_t status = propose(device); status.is_bad())
    throw ConfigError(text(problem_text(problem, device), ": ", status.get_message()));
}

fe::graph::Tensor_attributes ConvolutionGraph::attributes(TensorId id, const Shape& shape) const {
  return fe::graph::Tensor_attributes()
      .set_uid(id)
      .set_data_type(type_)
      .set_dim(dimensions(shape))
      .set_stride(channels_last_strides(shape));
}

ConvolutionGraph::Tensor ConvolutionGraph::add_operation(const ConvolutionProblem& problem,
                                                         const Tensor& first,
                                                         const Tensor& second) {
  const auto placed = [&problem](auto operation) {
    const auto both = [](const std::array<int64_t, 2>& axes) {
      return std::vector<int64_t>(axes.begin(), axes.end());
    };
    return operation.set_pre_padding(both(problem.geometry.padding.before))
        .set_post_padding(both(problem.geometry.padding.after))
        .set_stride(both(problem.geometry.stride))
        .set_dilation(both(problem.geometry.dilation));
  };
  switch (problem.pass) {
    case Pass::kForward:
      return conv_fprop(first, second, placed(fe::graph::Conv_fprop_attributes()));
    case Pass::kBackwardData:
      return conv_dgrad(first, second, placed(fe::graph::Conv_dgrad_attributes()));
    case Pass::kBackwardWeights: break;
  }
  return conv_wgrad(first, second, placed(fe::graph::Conv_wgrad_attributes()));
}

fe::error_t ConvolutionGraph::propose(const CudnnDevice& device) {
  fe::error_t status = validate();
  if (status.is_good())
    status = build_operations(*this, device.handle().get(), device.properties());
  if (status.is_good())
    status = create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  deselect_behavior_notes({fe::BehaviorNote_t::RUNTIME_COMPILATION});
  return status;
}

std::optional<ConvolutionPlan> ConvolutionGraph::build(int64_t index) {
  if (build_plan_at_index(index).is_bad()) return std::nullopt;
  ConvolutionPlan plan;
  if (get_plan_name_at_index(index, plan.name).is_bad()) return std::nullopt;
  // Read the notes from the built plan. The list of proposals in cuDNN-frontend contains additional
  // notes that cuDNN did not report.
  const fe::ExecutionPlan& built = *plans.execution_plans[static_cast<size_t>(index)];
  const auto& notes = built.getAllNumericNotes();
  const auto has = [&notes](cudnnBackendNumericalNote_t note) {
    return std::ranges::find(notes, note) != notes.end();
  };
  plan.workspace_bytes = static_cast<size_t>(built.getWorkspaceSize());
  plan.tensor_cores = has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  plan.rounds_factors = has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
  plan.rounds_sums = has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
  plan.nondeterministic = has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
  return plan;
}

void ConvolutionGraph::forget_others() {
  for (size_t i = 0; i < plans.execution_plans.size(); ++i)
    if (static_cast<int64_t>(i) != plans.candidate) plans.execution_plans[i].reset();
}

std::string ConvolutionGraph::run(cudnnHandle_t handle, std::span<void*> tensors,
                                  void* workspace) const {
  fe::error_t status = execute(handle, tensors.data(), static_cast<int>(tensors.size()), workspace);
  return status.is_bad() ? status.get_message() : "";
}

std::string ConvolutionGraph::reload(const CudnnDevice& device) {
  static_cast<void>(cudaGetLastError());  // clears the error of the failed execution
  try {
    const size_t remaining = static_cast<size_t>(plans.candidate);
    const std::string plan = plans.execution_plans[remaining]->getJsonRepresentation();
    fe::error_t status = device.handle() != nullptr ? plans.build_plans(device.handle().get(), plan)
                                                    : plans.build_plans(device.properties(), plan);
    return status.is_bad() ? status.get_message() : "";
  } catch (const fe::cudnnException& error) {
    return error.what();
  }
}

/// A planned convolution, which can run if `device` has a handle. All operations of the convolution
/// share this object.
struct RunnablePlan {
  std::string title;  ///< for messages
  ConvolutionPlan plan;
  CudnnDevice device;  ///< owns the cuDNN handle, which must outlive `graph`
  std::shared_ptr<ConvolutionGraph> graph;
  std::unique_ptr<PlanExecution> execution;
  size_t first_bytes = 0, second_bytes = 0, result_bytes = 0;
  int64_t widened = 0;      ///< elements of a bf16 result that is widened; 0: not widened
  size_t narrow_bytes = 0;  ///< size of that bf16 result; see narrow_bytes()

  size_t workspace_bytes() const { return with_alignment(narrow_bytes + plan.workspace_bytes); }
};

class ConvolutionOperation final : public Operation {
 public:
  ConvolutionOperation(std::shared_ptr<const RunnablePlan> plan, const ProductMemory& memory)
      : plan_(std::move(plan)), memory_(memory) {
    if (plan_->widened > 0)
      widening_ = widening(reinterpret_cast<const Bf16*>(aligned(memory.workspace)),
                           static_cast<float*>(memory.result), plan_->widened);
  }

  std::string name() const override { return plan_->plan.name; }

  void visit(MemoryVisitor& visitor) const override {
    visitor.reads(memory_.first, plan_->first_bytes);
    visitor.reads(memory_.second, plan_->second_bytes);
    visitor.writes(memory_.result, plan_->result_bytes);
    if (plan_->workspace_bytes() == 0) return;
    visitor.reads(memory_.workspace, plan_->workspace_bytes());
    visitor.writes(memory_.workspace, plan_->workspace_bytes());
  }

  void issue(const poseidon::cuda::Executor& executor) const override {
    cudnnHandle_t handle = plan_->device.handle().get();
    check(handle != nullptr, "a convolution that was planned without a GPU cannot run");
    const cudnnStatus_t set = cudnnSetStream(handle, static_cast<cudaStream_t>(executor.stream));
    if (set != CUDNN_STATUS_SUCCESS)
      throw RunError(text(plan_->title, ": ", cudnnGetErrorString(set)));
    std::byte* workspace = plan_->workspace_bytes() == 0 ? nullptr : aligned(memory_.workspace);
    // The addresses are in the order of TensorId.
    std::array<void*, 3> tensors{const_cast<void*>(memory_.first),
                                 const_cast<void*>(memory_.second),
                                 widening_ ? workspace : memory_.result};
    ConvolutionGraph& graph = *plan_->graph;
    plan_->execution->run(
        plan_->title, [&] { return graph.run(handle, tensors, workspace + plan_->narrow_bytes); },
        [&] { return graph.reload(plan_->device); });
    if (widening_) widening_->issue(executor);
  }

 private:
  std::shared_ptr<const RunnablePlan> plan_;
  ProductMemory memory_;
  std::unique_ptr<const Operation> widening_;  ///< null: cuDNN writes the final result
};

class PlannedConvolution final : public CudnnConvolution {
 public:
  explicit PlannedConvolution(RunnablePlan plan)
      : plan_(std::make_shared<const RunnablePlan>(std::move(plan))) {}

  std::string name() const override { return plan_->plan.name; }
  const ConvolutionPlan& plan() const override { return plan_->plan; }
  std::string reload() override { return plan_->graph->reload(plan_->device); }
  size_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  std::unique_ptr<const Operation> operation(const ProductMemory& memory) const override {
    return std::make_unique<ConvolutionOperation>(plan_, memory);
  }

 private:
  std::shared_ptr<const RunnablePlan> plan_;
};

std::unique_ptr<CudnnConvolution> planned(const ConvolutionProblem& problem,
                                          const CudnnDevice& device,
                                          std::shared_ptr<ReloadWarning> reloads,
                                          ConvolutionPlan plan,
                                          std::shared_ptr<ConvolutionGraph> graph) {
  graph->forget_others();
  const Shapes shapes = shapes_of(problem);
  return std::make_unique<PlannedConvolution>(RunnablePlan{
      .title = problem_text(problem, device),
      .plan = std::move(plan),
      .device = device,
      .graph = std::move(graph),
      .execution = std::make_unique<PlanExecution>(std::move(reloads)),
      .first_bytes = bytes_of(shapes.first, problem.type),
      .second_bytes = bytes_of(shapes.second, problem.type),
      .result_bytes = bytes_of(shapes.result, is_widened(problem) ? DataType::kFp32 : problem.type),
      .widened = is_widened(problem) ? shapes.result.count() : 0,
      .narrow_bytes = narrow_bytes(problem),
  });
}

}  // namespace

CudnnConvolutions::CudnnConvolutions(CudnnDevice device, const poseidon::cuda::Settings& settings)
    : device_(std::move(device)),
      settings_(settings),
      reloads_(std::make_shared<ReloadWarning>(settings.log)) {}

std::string CudnnConvolutions::rejection_reason(const ConvolutionProblem& problem,
                                                const ConvolutionPlan& plan) const {
  const bool strict = settings_.precision == Precision::kFp32 && problem.type == DataType::kFp32;
  if (strict && (plan.tensor_cores || plan.rounds_factors))
    return "rounds its inputs, but device.precision is \"fp32\"";
  if (plan.rounds_sums) return "rounds partial sums";
  if (settings_.deterministic && plan.nondeterministic)
    return "is not deterministic, but device.deterministic is true";
  const size_t bytes = with_alignment(narrow_bytes(problem) + plan.workspace_bytes);
  if (bytes > max_workspace_bytes(problem))
    return text("needs ", bytes, " bytes of workspace; the limit is ",
                max_workspace_bytes(problem));
  return "";
}

std::unique_ptr<CudnnConvolution> CudnnConvolutions::plan(const ConvolutionProblem& problem) const {
  auto graph = std::make_shared<ConvolutionGraph>(problem, device_);
  for (int64_t i = 0; i < graph->get_execution_plan_count(); ++i)
    if (auto plan = graph->build(i); plan && rejection_reason(problem, *plan).empty())
      return planned(problem, device_, reloads_, std::move(*plan), std::move(graph));
  throw ConfigError(text(problem_text(problem, device_), ": none of the ",
                         graph->get_execution_plan_count(), " plans of cuDNN is ",
                         settings_.deterministic ? "deterministic, " : "",
                         "as precise as device.precision requires and within ",
                         max_workspace_bytes(problem), " bytes of workspace"));
}

std::unique_ptr<CudnnConvolution> CudnnConvolutions::plan(const ConvolutionProblem& problem,
                                                          std::string_view name) const {
  auto graph = std::make_shared<ConvolutionGraph>(problem, device_);
  std::string fault = "cuDNN does not propose it, or cannot build it";
  for (int64_t i = 0; i < graph->get_execution_plan_count(); ++i) {
    std::string proposed;
    if (graph->get_plan_name_at_index(i, proposed).is_bad() || proposed != name) continue;
    auto plan = graph->build(i);
    if (!plan) continue;
    const std::string why = rejection_reason(problem, *plan);
    if (why.empty()) return planned(problem, device_, reloads_, std::move(*plan), std::move(graph));
    fault = "it " + why;
  }
  throw ConfigError(text(problem_text(problem, device_), ": cannot use the chosen plan \"", name,
                         "\": ", fault,
                         "; choose another plan with --tune, or with --resume and --replan"));
}

std::vector<std::string> CudnnConvolutions::alternatives(const ConvolutionProblem& problem) const {
  ConvolutionGraph graph(problem, device_);
  std::vector<std::string> names;
  for (int64_t i = 0; i < graph.get_execution_plan_count(); ++i)
    if (auto plan = graph.build(i); plan && rejection_reason(problem, *plan).empty())
      if (std::ranges::find(names, plan->name) == names.end()) names.push_back(plan->name);
  return names;
}

size_t max_workspace_bytes(const ConvolutionProblem& problem) {
  constexpr size_t kAlways = size_t{64} << 20;
  const Shapes shapes = shapes_of(problem);
  size_t bytes = 0;
  for (const Shape& shape : {shapes.first, shapes.second, shapes.result})
    bytes += bytes_of(shape, problem.type);
  return std::max(kAlways, 2 * bytes);
}

std::string geometry_text(const Convolution& geometry) {
  const auto pair = [](const std::array<int64_t, 2>& axes) { return text(axes[0], "x", axes[1]); };
  const auto padding_text = [&](const Sides& sides) {
    const std::string before = pair(sides.before), after = pair(sides.after);
    return before == after ? before : text(before, " before and ", after, " after");
  };
  return text(geometry.input.text(), " to ", geometry.output.text(), ", kernel ",
              pair(geometry.kernel), ", stride ", pair(geometry.stride), ", padding ",
              padding_text(geometry.padding), ", dilation ", pair(geometry.dilation), ", groups ",
              geometry.groups);
}

const char* pass_name(Pass pass) {
  switch (pass) {
    case Pass::kForward: return "forward";
    case Pass::kBackwardData: return "backward data";
    case Pass::kBackwardWeights: break;
  }
  return "backward weights";
}

}  // namespace poseidon::layers::cuda
