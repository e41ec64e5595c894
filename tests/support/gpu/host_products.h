#pragma once

#include "layers/cuda/products.h"

namespace poseidon::test {

/// Convolutions and matrix products by plain loops of the host, in place of a GPU's libraries.
/// Factors are rounded as their type says, sums are in double precision.
class HostProducts final : public layers::cuda::Products {
 public:
  using Product = layers::cuda::Product;

  std::unique_ptr<Product> plan(const layers::cuda::ConvolutionProblem& problem,
                                std::string_view name) override;
  std::unique_ptr<Product> plan(const layers::cuda::MatrixProblem& problem) override;
  /// Two of the same bits; the second asks for more workspace.
  std::vector<std::string> alternatives(const layers::cuda::ConvolutionProblem&) override {
    return {kRule, kRoomy};
  }

  static constexpr const char *kRule = "host", *kRoomy = "host, with more workspace";
};

}  // namespace poseidon::test
