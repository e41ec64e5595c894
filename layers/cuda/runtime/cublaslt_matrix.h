#pragma once

#include <string_view>
#include <vector>

#include "layers/cuda/products.h"

struct cublasLtContext;

namespace poseidon::layers::cuda {

/// Plans matrix products with cuBLASLt. A GPU must be current, because cuBLASLt lists algorithms
/// only on a GPU. A fixed rule selects the first allowed algorithm that cuBLASLt's heuristic
/// proposes. The rule makes no measurements. An algorithm is allowed if:
///
/// * With fp32 precision, it multiplies and adds in fp32 (no tensor cores). With another precision,
///   it may round factors to tf32.
/// * If results must be deterministic, its blocks do not add partial sums directly to the result.
/// * Its workspace is at most kMaxWorkspaceBytes.
class CublasltMatrices {
 public:
  static constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

  /// `gpu`: index of the current GPU. Throws RunError if cuBLASLt cannot use it.
  CublasltMatrices(int gpu, const poseidon::cuda::Settings& settings);

  /// Plans with the algorithm that the fixed rule selects. Throws ConfigError if no algorithm is
  /// allowed.
  std::unique_ptr<Product> plan(const MatrixProblem& problem) const;
  /// Plans with the algorithm of this name. Throws ConfigError if the name is not among
  /// alternatives().
  std::unique_ptr<Product> plan(const MatrixProblem& problem, std::string_view name) const;
  /// The names of all allowed algorithms that the heuristic proposes. The algorithm that the fixed
  /// rule selects comes first.
  std::vector<std::string> alternatives(const MatrixProblem& problem) const;

 private:
  std::shared_ptr<cublasLtContext> handle_;
  poseidon::cuda::Settings settings_;
};

}  // namespace poseidon::layers::cuda
