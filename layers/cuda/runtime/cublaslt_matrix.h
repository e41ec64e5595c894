#pragma once

#include <string_view>
#include <vector>

#include "layers/cuda/products.h"

struct cublasLtContext;

namespace poseidon::layers::cuda {

/// Plans matrix products by cuBLASLt on the current GPU, which alone knows its algorithms. The rule
/// measures nothing: of what the heuristic proposes, in its order, the first algorithm that is
/// allowed:
///
/// * with fp32 precision it multiplies and adds fp32 (no tensor cores); else factors may be rounded
///   to tf32;
/// * where it must be deterministic, a sum that is split is put together in a step of its own, from
///   the workspace;
/// * its workspace is within kMostWorkspace.
class CublasltMatrices {
 public:
  static constexpr size_t kMostWorkspace = size_t{32} << 20;

  /// Throws RunError where there is no GPU.
  explicit CublasltMatrices(const poseidon::cuda::Settings& settings);

  /// By the rule. Throws ConfigError where no algorithm is allowed.
  std::unique_ptr<Product> plan(const MatrixProblem& problem) const;
  /// The alternative of this name. Throws ConfigError where there is none.
  std::unique_ptr<Product> plan(const MatrixProblem& problem, std::string_view name) const;
  /// The names of the algorithms that are allowed, the rule's choice first.
  std::vector<std::string> alternatives(const MatrixProblem& problem) const;

 private:
  std::shared_ptr<cublasLtContext> handle_;
  poseidon::cuda::Settings settings_;
};

}  // namespace poseidon::layers::cuda
