#pragma once

#include <string_view>
#include <vector>

#include "layers/cuda/products.h"
#include "layers/cuda/runtime/cudnn_device.h"

/// Convolutions by cuDNN. A plan is one of its engines with its settings (knobs); the plans that
/// cuDNN proposes for a problem do not depend on whether the GPU is here.
namespace poseidon::layers::cuda {

/// What cuDNN says of a plan.
struct ConvolutionPlan {
  std::string name;            ///< engine and knobs: "eng62_k2=0_k13=1"
  size_t workspace_bytes = 0;  ///< of cuDNN alone
  bool tensor_cores = false;   ///< fp32 factors are rounded to tf32 there
  bool rounds_factors = false;
  bool rounds_sums = false;
  bool nondeterministic = false;
};

/// A convolution that is planned.
class CudnnConvolution : public Product {
 public:
  virtual const ConvolutionPlan& plan() const = 0;
};

/// Plans convolutions for one GPU, by a fixed rule that measures nothing. Of what cuDNN proposes,
/// in its own order (what its heuristic expects to be fastest first, what works for most problems
/// last), the first plan that is allowed:
///
/// * sums are fp32; with fp32 precision no factor is rounded, so no tensor cores for fp32;
/// * where it must be deterministic, cuDNN does not call it nondeterministic;
/// * its workspace is within most_workspace_bytes();
/// * it is not compiled at run time, which takes seconds, and cannot be tried without a GPU.
///
/// cuDNN has no plan that makes an fp32 gradient of a bf16 weight, so that is made as bf16, from
/// sums in fp32, and then widened.
class CudnnConvolutions {
 public:
  CudnnConvolutions(CudnnDevice device, const poseidon::cuda::Settings& settings)
      : device_(std::move(device)), settings_(settings) {}

  /// By the rule. Throws ConfigError where no plan is allowed.
  std::unique_ptr<CudnnConvolution> plan(const ConvolutionProblem& problem) const;
  /// The alternative of this name. Throws ConfigError where there is none, which says why.
  std::unique_ptr<CudnnConvolution> plan(const ConvolutionProblem& problem,
                                         std::string_view name) const;
  /// The names of all plans that are allowed, the rule's choice first.
  std::vector<std::string> alternatives(const ConvolutionProblem& problem) const;

 private:
  /// "" for a plan that is allowed.
  std::string why_not(const ConvolutionProblem& problem, const ConvolutionPlan& plan) const;

  CudnnDevice device_;
  poseidon::cuda::Settings settings_;
};

/// 64 MiB, or twice what the problem's tensors take, if that is more: an engine that wants them in
/// another layout copies each once.
size_t most_workspace_bytes(const ConvolutionProblem& problem);

/// "8x3x224x224 to 8x64x112x112, kernel 7x7, stride 2x2, padding 3x3, dilation 1x1, groups 1"
std::string geometry_text(const Convolution& geometry);

/// "forward", "backward data", "backward weights"
const char* pass_name(ConvolutionProblem::Pass pass);

}  // namespace poseidon::layers::cuda
