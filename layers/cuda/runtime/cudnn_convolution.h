#pragma once

#include <string_view>
#include <vector>

#include "layers/cuda/products.h"
#include "layers/cuda/runtime/cudnn_device.h"

/// Convolutions by cuDNN. A plan is a cuDNN engine with its settings (knobs). cuDNN proposes the
/// same plans for a problem whether or not the machine has the GPU.
namespace poseidon::layers::cuda {

/// The properties of a plan, as cuDNN reports them.
struct ConvolutionPlan {
  std::string name;            ///< engine and knobs: "eng62_k2=0_k13=1"
  size_t workspace_bytes = 0;  ///< of cuDNN alone, without alignment
  bool tensor_cores = false;   ///< they round fp32 factors to tf32
  bool rounds_factors = false;
  bool rounds_sums = false;
  bool nondeterministic = false;
};

/// A planned convolution.
class CudnnConvolution : public Product {
 public:
  virtual const ConvolutionPlan& plan() const = 0;
};

/// Plans convolutions for one GPU. The fixed rule measures nothing. It takes the first allowed plan
/// in cuDNN's order. First are the plans that the heuristic expects to be fastest; last are the
/// fallback plans. A plan is allowed if:
///
/// * Sums are fp32. With fp32 precision no factor is rounded, so fp32 uses no tensor cores.
/// * cuDNN does not mark it nondeterministic, if results must be deterministic.
/// * Its workspace is at most max_workspace_bytes().
/// * cuDNN does not compile it at run time. That takes seconds and cannot be tested without a GPU.
///
/// cuDNN has no plan that writes an fp32 gradient of a bf16 weight. So cuDNN writes that gradient
/// as bf16, from sums in fp32, and a kernel then widens it to fp32.
class CudnnConvolutions {
 public:
  CudnnConvolutions(CudnnDevice device, const poseidon::cuda::Settings& settings)
      : device_(std::move(device)), settings_(settings) {}

  /// Plans by the fixed rule. Throws ConfigError if no plan is allowed.
  std::unique_ptr<CudnnConvolution> plan(const ConvolutionProblem& problem) const;
  /// Returns the plan of this name. Throws ConfigError with the reason if cuDNN does not propose it
  /// or if it is not allowed.
  std::unique_ptr<CudnnConvolution> plan(const ConvolutionProblem& problem,
                                         std::string_view name) const;
  /// The names of all plans that are allowed. The choice of the rule comes first.
  std::vector<std::string> alternatives(const ConvolutionProblem& problem) const;

 private:
  /// The reason why a plan is not allowed; "": it is allowed.
  std::string rejection_reason(const ConvolutionProblem& problem,
                               const ConvolutionPlan& plan) const;

  CudnnDevice device_;
  poseidon::cuda::Settings settings_;
};

/// Limit on the workspace of a plan: 64 MiB, or twice the bytes of the problem's tensors if that is
/// more. An engine that needs another layout copies each tensor once.
size_t max_workspace_bytes(const ConvolutionProblem& problem);

/// "8x3x224x224 to 8x64x112x112, kernel 7x7, stride 2x2, padding 3x3, dilation 1x1, groups 1"
std::string geometry_text(const Convolution& geometry);

/// "forward", "backward data", "backward weights"
const char* pass_name(ConvolutionProblem::Pass pass);

}  // namespace poseidon::layers::cuda
