#pragma once

#include <string_view>
#include <vector>

#include "layers/cuda/products.h"

struct cublasLtContext;

namespace poseidon::layers::cuda {

/// Plans matrix products by cuBLASLt. Planning needs the current GPU, because cuBLASLt lists
/// algorithms only on a GPU. The fixed rule measures nothing. It takes the first proposal of
/// cuBLASLt's heuristic that is allowed:
///
/// * With fp32 precision, the algorithm multiplies and adds in fp32 (no tensor cores). Otherwise it
///   may round factors to tf32.
/// * If results must be deterministic, split sums are reduced in a separate step from the
///   workspace, not in place.
/// * The workspace is at most kMaxWorkspaceBytes bytes.
class CublasltMatrices {
 public:
  static constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

  /// Throws RunError if there is no GPU.
  explicit CublasltMatrices(const poseidon::cuda::Settings& settings);

  /// Plans by the fixed rule. Throws ConfigError if no algorithm is allowed.
  std::unique_ptr<Product> plan(const MatrixProblem& problem) const;
  /// Plans by the algorithm of this name. Throws ConfigError if it is not among alternatives().
  std::unique_ptr<Product> plan(const MatrixProblem& problem, std::string_view name) const;
  /// The names of the algorithms that are allowed. The choice of the rule comes first.
  std::vector<std::string> alternatives(const MatrixProblem& problem) const;

 private:
  std::shared_ptr<cublasLtContext> handle_;
  poseidon::cuda::Settings settings_;
};

}  // namespace poseidon::layers::cuda
