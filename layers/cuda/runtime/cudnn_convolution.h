#pragma once

#include <string_view>
#include <vector>

#include "layers/cuda/products.h"
#include "layers/cuda/runtime/cudnn_device.h"

/// Convolutions by cuDNN. A plan is a cuDNN engine and its settings (knobs). For a given problem
/// and GPU model, cuDNN proposes the same plans whether or not the machine has the GPU.
namespace poseidon::layers::cuda {

/// The properties of a plan, as cuDNN reports them.
struct ConvolutionPlan {
  std::string name;            ///< engine and knobs: "eng62_k2=0_k13=1"
  size_t workspace_bytes = 0;  ///< bytes that cuDNN needs, without alignment
  bool tensor_cores = false;   ///< uses tensor cores, which round fp32 factors to tf32
  bool rounds_factors = false;
  bool rounds_sums = false;
  bool nondeterministic = false;
};

class ReloadWarning;

/// A planned convolution.
class CudnnConvolution : public Product {
 public:
  virtual const ConvolutionPlan& plan() const = 0;
  /// Replaces the plan by one that cuDNN loads from the plan's serialized form. Returns the error,
  /// or "". If the first execution of a plan fails, the operation reloads the plan in the same way.
  virtual std::string reload() = 0;
};

/// Plans convolutions for one GPU. A fixed rule selects the first allowed plan in cuDNN's order.
/// The rule makes no measurements. cuDNN first lists the plans that its heuristic expects to be
/// fastest, and then the fallback plans. A plan is allowed if:
///
/// * It adds in fp32. With fp32 precision, it does not round factors. So it does not multiply fp32
///   factors with tensor cores.
/// * cuDNN does not mark it as nondeterministic, if results must be deterministic.
/// * Its workspace is at most max_workspace_bytes().
/// * cuDNN does not compile it at run time. Such a compilation takes seconds and cannot be tested
///   without a GPU.
///
/// cuDNN has no plan that writes an fp32 gradient of a bf16 weight. So cuDNN adds in fp32 and
/// writes this gradient as bf16. A kernel then widens it to fp32.
class CudnnConvolutions {
 public:
  CudnnConvolutions(CudnnDevice device, const poseidon::cuda::Settings& settings);

  /// Returns the plan that the fixed rule selects. Throws ConfigError if no plan is allowed.
  std::unique_ptr<CudnnConvolution> plan(const ConvolutionProblem& problem) const;
  /// Returns the plan of this name. Throws ConfigError with the reason if cuDNN does not propose it
  /// or cannot build it, or if it is not allowed.
  std::unique_ptr<CudnnConvolution> plan(const ConvolutionProblem& problem,
                                         std::string_view name) const;
  /// The names of all allowed plans. The plan that the fixed rule selects comes first.
  std::vector<std::string> alternatives(const ConvolutionProblem& problem) const;

 private:
  /// The reason why a plan is not allowed; "": it is allowed.
  std::string rejection_reason(const ConvolutionProblem& problem,
                               const ConvolutionPlan& plan) const;

  CudnnDevice device_;
  poseidon::cuda::Settings settings_;
  std::shared_ptr<ReloadWarning> reloads_;
};

/// Limit on the workspace of a plan: 64 MiB, or twice the bytes of the problem's tensors if that is
/// more. An engine that needs another layout copies each tensor to the workspace.
size_t max_workspace_bytes(const ConvolutionProblem& problem);

/// "8x3x224x224 to 8x64x112x112, kernel 7x7, stride 2x2, padding 3x3, dilation 1x1, groups 1"
std::string geometry_text(const Convolution& geometry);

/// "forward", "backward data", "backward weights"
const char* pass_name(ConvolutionProblem::Pass pass);

}  // namespace poseidon::layers::cuda
