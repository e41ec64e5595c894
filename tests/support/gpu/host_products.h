#pragma once

#include "layers/cuda/products.h"

namespace poseidon::test {

/// Convolutions and matrix products by plain loops of the host, in place of a GPU's libraries.
/// Factors are rounded as their type says, sums are in double precision.
class HostProducts final : public layers::cuda::Products {
 public:
  using Product = layers::cuda::Product;

  std::unique_ptr<Product> plan(const layers::cuda::ConvolutionProblem& problem) override;
  std::unique_ptr<Product> plan(const layers::cuda::MatrixProblem& problem) override;
};

}  // namespace poseidon::test
