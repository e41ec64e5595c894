#pragma once

#include "layers/cuda/products.h"

namespace poseidon::test {

/// Convolutions and matrix products by plain loops on the host, in place of a GPU's libraries.
/// Factors are rounded to their data type. Sums use double precision.
class HostProducts final : public layers::cuda::Products {
 public:
  using Product = layers::cuda::Product;

  std::unique_ptr<Product> plan(const layers::cuda::ConvolutionProblem& problem,
                                std::string_view name) override;
  std::unique_ptr<Product> plan(const layers::cuda::MatrixProblem& problem) override;
  /// Returns two plans with bitwise equal results. The second one needs more workspace.
  std::vector<std::string> alternatives(const layers::cuda::ConvolutionProblem&) override {
    return {kRule, kRoomy};
  }

  static constexpr const char *kRule = "host", *kRoomy = "host, with more workspace";
};

}  // namespace poseidon::test
