#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "layers/cuda/products.h"

namespace poseidon::layers::cuda {

/// A request to a library for an algorithm of a matrix product.
struct MatrixRequest {
  MatrixProblem problem;   ///< without bias and relu unless `epilogue`
  bool fp32_mask = false;  ///< only algorithms that the library marks as fp32 arithmetic
  bool epilogue = true;    ///< the product includes bias and relu; false: the caller adds them
  std::string note = {};   ///< difference from the first request, such as " (no fp32 mask)"
};

/// The requests for a product, the preferred one first:
///
/// 1. with the fp32 mask, if `precision` is fp32, and with the epilogue
/// 2. without the mask
/// 3. without mask and epilogue
///
/// Omits a request that equals the previous one.
std::vector<MatrixRequest> matrix_requests(const MatrixProblem& problem, Precision precision);

/// Plans a request. Returns null if the library has no algorithm for it.
using PlanRequest = std::function<std::unique_ptr<Product>(const MatrixRequest&)>;

/// Plans the first of matrix_requests() for which the library has an algorithm. Returns null if no
/// request has an algorithm.
std::unique_ptr<Product> plan_first(const MatrixProblem& problem, Precision precision,
                                    const PlanRequest& plan);

}  // namespace poseidon::layers::cuda
