#include "layers/cuda/runtime/cublaslt_matrix.h"

#include <cublasLt.h>

#include <array>
#include <optional>
#include <span>

#include "core/cuda/runtime/gpus.h"
#include "core/error.h"
#include "layers/cuda/runtime/column_product.h"
#include "layers/cuda/runtime/workspace.h"

namespace poseidon::layers::cuda {

using poseidon::cuda::MemoryVisitor;
using poseidon::cuda::Operation;
using poseidon::cuda::Settings;

namespace {

/// "[matrix product] 8 x 9216 by 9216 x 4096 (transposed), bias, relu"
std::string matrix_text(const MatrixProblem& problem) {
  return text("[matrix product] ", problem.rows, " x ", problem.depth,
              problem.transpose_first ? " (transposed)" : "", " by ", problem.depth, " x ",
              problem.columns, problem.transpose_second ? " (transposed)" : "",
              problem.bias ? ", bias" : "", problem.relu ? ", relu" : "");
}

void check_matrix(cublasStatus_t status, const MatrixProblem& problem) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw RunError(text(matrix_text(problem), ": cuBLASLt: ", cublasLtGetStatusString(status)));
}

cublasLtMatrixLayoutOpaque_t layout_of(const ColumnMatrix& matrix, const MatrixProblem& problem) {
  cublasLtMatrixLayoutOpaque_t made;
  check_matrix(cublasLtMatrixLayoutInit(&made, CUDA_R_32F, static_cast<uint64_t>(matrix.rows),
                                        static_cast<uint64_t>(matrix.columns), /*ld=*/matrix.rows),
               problem);
  return made;
}

cublasLtEpilogue_t epilogue_of(const MatrixProblem& problem) {
  if (problem.relu) return problem.bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  return problem.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/// The cuBLASLt descriptors of a problem.
class Description {
 public:
  Description(const MatrixProblem& problem, const Settings& settings)
      : problem_(problem),
        columns_(column_product(problem)),
        compute_(settings.precision == Precision::kFp32 ? CUBLAS_COMPUTE_32F
                                                        : CUBLAS_COMPUTE_32F_FAST_TF32),
        first_(layout_of(columns_.first, problem)),
        second_(layout_of(columns_.second, problem)),
        result_(layout_of(columns_.result, problem)) {}

  const MatrixProblem& problem() const { return problem_; }
  /// The layouts of the factors in cuBLASLt's order. cuBLASLt's first factor is the problem's
  /// second factor.
  cublasLtMatrixLayout_t first() const { return &first_; }
  cublasLtMatrixLayout_t second() const { return &second_; }
  cublasLtMatrixLayout_t result() const { return &result_; }
  /// The descriptor of the product, with the bias at this address.
  cublasLtMatmulDescOpaque_t operation(const float* bias) const;

 private:
  MatrixProblem problem_;
  ColumnProduct columns_;
  cublasComputeType_t compute_;
  // mutable: cuBLASLt's functions need pointers to non-const descriptors.
  mutable cublasLtMatrixLayoutOpaque_t first_, second_, result_;
};

cublasLtMatmulDescOpaque_t Description::operation(const float* bias) const {
  cublasLtMatmulDescOpaque_t made;
  check_matrix(cublasLtMatmulDescInit(&made, compute_, CUDA_R_32F), problem_);
  const auto set = [&](cublasLtMatmulDescAttributes_t key, const auto& value) {
    check_matrix(cublasLtMatmulDescSetAttribute(&made, key, &value, sizeof(value)), problem_);
  };
  const auto transposed = [](bool yes) { return yes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  set(CUBLASLT_MATMUL_DESC_TRANSA, transposed(columns_.first.transposed));
  set(CUBLASLT_MATMUL_DESC_TRANSB, transposed(columns_.second.transposed));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(problem_));
  if (problem_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  return made;
}

template <class Value>
Value configured(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t key) {
  Value value{};
  size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, key, &value, sizeof(value), &written);
  return status == CUBLAS_STATUS_SUCCESS ? value : Value{};
}

/// "algo66_tile20_stages8_splitk1_reduction0_swizzle0_custom0_inner0_cluster2"
std::string algorithm_name(const cublasLtMatmulAlgo_t& algorithm) {
  const auto number = [&](cublasLtMatmulAlgoConfigAttributes_t key) {
    return configured<uint32_t>(algorithm, key);
  };
  const auto small = [&](cublasLtMatmulAlgoConfigAttributes_t key) {
    return configured<uint16_t>(algorithm, key);
  };
  return text("algo", configured<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_ID), "_tile",
              number(CUBLASLT_ALGO_CONFIG_TILE_ID), "_stages",
              number(CUBLASLT_ALGO_CONFIG_STAGES_ID), "_splitk",
              configured<int32_t>(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM), "_reduction",
              number(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), "_swizzle",
              number(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING), "_custom",
              number(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION), "_inner",
              small(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID), "_cluster",
              small(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

/// The reduction schemes that the heuristic may propose.
constexpr uint32_t reduction_schemes(const Settings& settings) {
  // The in-place scheme adds partial sums to the result in the order in which the blocks finish, so
  // it is not deterministic.
  return settings.deterministic
             ? CUBLASLT_REDUCTION_SCHEME_MASK & ~CUBLASLT_REDUCTION_SCHEME_INPLACE
             : CUBLASLT_REDUCTION_SCHEME_MASK;
}

/// Implementations that read, multiply and add fp32 numbers, without tensor cores.
constexpr uint64_t kStrictFp32 = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA |
                                 CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F |
                                 CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;

/// True if the arithmetic of the algorithm is fp32, as the request requires.
bool is_fp32(const cublasLtMatmulAlgo_t& algorithm, const MatrixRequest& request) {
  uint64_t flags = 0;
  size_t written = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoCapGetAttribute(
      &algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &flags, sizeof(flags), &written);
  // Without tensor cores, CUBLAS_COMPUTE_32F means fp32 arithmetic, even if cuBLASLt reports no
  // flags.
  if (!request.fp32_mask) return (flags & CUBLASLT_NUMERICAL_IMPL_FLAGS_TENSOR_OP_MASK) == 0;
  return status == CUBLAS_STATUS_SUCCESS && (flags & ~kStrictFp32) == 0;
}

bool is_allowed(const cublasLtMatmulHeuristicResult_t& proposed, const MatrixRequest& request,
                const Settings& settings) {
  if (proposed.state != CUBLAS_STATUS_SUCCESS ||
      proposed.workspaceSize > CublasltMatrices::kMaxWorkspaceBytes)
    return false;
  const auto scheme = configured<uint32_t>(proposed.algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME);
  if ((scheme & ~reduction_schemes(settings)) != 0) return false;
  return settings.precision != Precision::kFp32 || is_fp32(proposed.algo, request);
}

cublasLtMatmulPreferenceOpaque_t preference(const MatrixRequest& request,
                                            const Settings& settings) {
  cublasLtMatmulPreferenceOpaque_t made;
  check_matrix(cublasLtMatmulPreferenceInit(&made), request.problem);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t key, const auto& value) {
    check_matrix(cublasLtMatmulPreferenceSetAttribute(&made, key, &value, sizeof(value)),
                 request.problem);
  };
  const uint64_t workspace = CublasltMatrices::kMaxWorkspaceBytes;
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes(settings));
  if (request.fp32_mask) set(CUBLASLT_MATMUL_PREF_IMPL_MASK, kStrictFp32);
  const uint32_t alignment = 64;  // bytes; the alignment of all tensors of a net
  for (const auto key :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(key, alignment);
  return made;
}

/// True if cuBLASLt returns this status when no algorithm has the requested properties.
bool means_no_algorithm(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/// The first allowed proposal of cuBLASLt's heuristic.
std::optional<cublasLtMatmulHeuristicResult_t> proposal(cublasLtHandle_t handle,
                                                        const Description& description,
                                                        const MatrixRequest& request,
                                                        const Settings& settings) {
  constexpr int kMax = 32;
  // If the problem has a bias, the heuristic needs a non-null address. It does not read from this
  // address.
  const auto* bias = reinterpret_cast<const float*>(kWorkspaceAlignment);
  cublasLtMatmulDescOpaque_t operation = description.operation(bias);
  cublasLtMatmulPreferenceOpaque_t preferred = preference(request, settings);
  std::array<cublasLtMatmulHeuristicResult_t, kMax> found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, &operation, description.first(), description.second(), description.result(),
      description.result(), &preferred, kMax, found.data(), &count);
  if (means_no_algorithm(status)) return std::nullopt;
  check_matrix(status, request.problem);
  for (const auto& proposed : std::span(found).first(static_cast<size_t>(count)))
    if (is_allowed(proposed, request, settings)) return proposed;
  return std::nullopt;
}

/// A planned product that can run. All operations of the product share this object.
struct RunnableMatrix {
  std::shared_ptr<cublasLtContext> handle;
  Description description;
  cublasLtMatmulAlgo_t algorithm;
  size_t workspace_bytes;  ///< bytes that cuBLASLt needs, without the bytes for alignment
  bool has_epilogue;
  std::string name;
};

class MatrixOperation final : public Operation {
 public:
  MatrixOperation(std::shared_ptr<const RunnableMatrix> plan, const ProductMemory& memory)
      : plan_(std::move(plan)),
        memory_(memory),
        operation_(plan_->description.operation(memory.bias)) {}

  std::string name() const override { return plan_->name; }

  void visit(MemoryVisitor& visitor) const override {
    const MatrixProblem& problem = plan_->description.problem();
    const auto bytes = [](int64_t rows, int64_t columns) {
      return static_cast<size_t>(rows * columns) * sizeof(float);
    };
    visitor.reads(memory_.first, bytes(problem.rows, problem.depth));
    visitor.reads(memory_.second, bytes(problem.depth, problem.columns));
    if (problem.bias) visitor.reads(memory_.bias, bytes(1, problem.columns));
    visitor.writes(memory_.result, bytes(problem.rows, problem.columns));
    if (plan_->workspace_bytes == 0) return;
    visitor.reads(memory_.workspace, with_alignment(plan_->workspace_bytes));
    visitor.writes(memory_.workspace, with_alignment(plan_->workspace_bytes));
  }

  void issue(const poseidon::cuda::Executor& executor) const override {
    const Description& description = plan_->description;
    const float one = 1, zero = 0;
    std::byte* workspace = plan_->workspace_bytes == 0 ? nullptr : aligned(memory_.workspace);
    check_matrix(cublasLtMatmul(plan_->handle.get(), &operation_, &one, memory_.second,
                                description.first(), memory_.first, description.second(), &zero,
                                memory_.result, description.result(), memory_.result,
                                description.result(), &plan_->algorithm, workspace,
                                plan_->workspace_bytes, static_cast<cudaStream_t>(executor.stream)),
                 description.problem());
  }

 private:
  std::shared_ptr<const RunnableMatrix> plan_;
  ProductMemory memory_;
  mutable cublasLtMatmulDescOpaque_t operation_;  // mutable: see Description
};

class PlannedMatrix final : public Product {
 public:
  explicit PlannedMatrix(std::shared_ptr<const RunnableMatrix> plan) : plan_(std::move(plan)) {}

  std::string name() const override { return plan_->name; }
  size_t workspace_bytes() const override { return with_alignment(plan_->workspace_bytes); }
  bool has_epilogue() const override { return plan_->has_epilogue; }
  std::unique_ptr<const Operation> operation(const ProductMemory& memory) const override {
    return std::make_unique<MatrixOperation>(plan_, memory);
  }

 private:
  std::shared_ptr<const RunnableMatrix> plan_;
};

std::shared_ptr<cublasLtContext> make_cublaslt(int gpu) {
  cublasLtHandle_t handle = nullptr;
  const cublasStatus_t status = cublasLtCreate(&handle);
  if (status != CUBLAS_STATUS_SUCCESS)
    throw RunError(text("cuBLASLt cannot use this GPU: ", cublasLtGetStatusString(status)));
  return poseidon::cuda::library_object(gpu, handle, cublasLtDestroy);
}

}  // namespace

CublasltMatrices::CublasltMatrices(int gpu, const Settings& settings)
    : handle_(make_cublaslt(gpu)), settings_(settings) {}

std::unique_ptr<Product> CublasltMatrices::plan(const MatrixProblem& problem) const {
  auto planned = plan_first(problem, settings_.precision,
                            [this](const MatrixRequest& request) { return plan_request(request); });
  if (planned == nullptr)
    throw ConfigError(text(matrix_text(problem), ": cuBLASLt has no algorithm that is ",
                           settings_.deterministic ? "deterministic and " : "",
                           "as precise as device.precision requires"));
  return planned;
}

std::unique_ptr<Product> CublasltMatrices::plan_request(const MatrixRequest& request) const {
  const Description description(request.problem, settings_);
  const auto chosen = proposal(handle_.get(), description, request, settings_);
  if (!chosen) return nullptr;
  return std::make_unique<PlannedMatrix>(std::make_shared<const RunnableMatrix>(
      RunnableMatrix{.handle = handle_,
                     .description = description,
                     .algorithm = chosen->algo,
                     .workspace_bytes = chosen->workspaceSize,
                     .has_epilogue = request.epilogue,
                     .name = algorithm_name(chosen->algo) + request.note}));
}

}  // namespace poseidon::layers::cuda
