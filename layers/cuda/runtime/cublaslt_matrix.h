#pragma once

#include <memory>

#include "layers/cuda/matrix_requests.h"

struct cublasLtContext;

namespace poseidon::layers::cuda {

/// Plans matrix products with cuBLASLt. A GPU must be current, because cuBLASLt lists algorithms
/// only on a GPU. A fixed rule tries matrix_requests() in order, and selects the first allowed
/// algorithm that cuBLASLt's heuristic proposes. The rule makes no measurements. An algorithm is
/// allowed if:
///
/// * With fp32 precision, it does not use tensor cores. If the request has the fp32 mask, cuBLASLt
///   must also mark it as fp32 multiplication and addition. With another precision, it may round
///   factors to tf32.
/// * If results must be deterministic, its blocks do not add partial sums directly to the result.
/// * Its workspace is at most kMaxWorkspaceBytes.
class CublasltMatrices {
 public:
  static constexpr size_t kMaxWorkspaceBytes = size_t{32} << 20;

  /// `gpu`: index of the current GPU. Throws RunError if cuBLASLt cannot use it.
  CublasltMatrices(int gpu, const poseidon::cuda::Settings& settings);

  /// Plans with the algorithm that the fixed rule selects. The name of the product ends with
  /// MatrixRequest::note. Throws ConfigError if no algorithm is allowed.
  std::unique_ptr<Product> plan(const MatrixProblem& problem) const;

 private:
  /// Returns null if no algorithm is allowed.
  std::unique_ptr<Product> plan_request(const MatrixRequest& request) const;

  std::shared_ptr<cublasLtContext> handle_;
  poseidon::cuda::Settings settings_;
};

}  // namespace poseidon::layers::cuda
