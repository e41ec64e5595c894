#pragma once

#include <memory>

#include "layers/cuda/matrix_requests.h"

struct cublasLtContext;

namespace poseidon::layers::cuda {

/// Plans matrix products with cuBLASLt. A GPU must be current, because cuBLASLt lists algorithms
/// only on a GPU. A fixed rule selects the first allowed algorithm that cuBLASLt's heuristic
/// proposes for the first of matrix_requests() that has one. The rule makes no measurements. An
/// algorithm is allowed if:
///
/// * With fp32 precision, it does not use tensor cores. With the mask, cuBLASLt must mark it as
///   fp32 multiplication and addition. With another precision, it may round factors to tf32.
/// * If results must be deterministic, its blocks do not add partial sums directly to the result.
/// * Its workspace is at most kMaxWorkspaceBytes.
class CublasltMatrices {
 public:
  static constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

  /// `gpu`: index of the current GPU. Throws RunError if cuBLASLt cannot use it.
  CublasltMatrices(int gpu, const poseidon::cuda::Settings& settings);

  /// The product's name ends with MatrixRequest::note. Throws ConfigError if no algorithm is
  /// allowed.
  std::unique_ptr<Product> plan(const MatrixProblem& problem) const;

 private:
  /// Null: no algorithm is allowed.
  std::unique_ptr<Product> plan_request(const MatrixRequest& request) const;

  std::shared_ptr<cublasLtContext> handle_;
  poseidon::cuda::Settings settings_;
};

}  // namespace poseidon::layers::cuda
