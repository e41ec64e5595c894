#pragma once

#include "layers/cuda/products.h"

namespace poseidon::bench {

/// Products that are never computed, and know what that would ask of a GPU: each factor read once
/// and the result written once, and the operations that the definition of the product has. What a
/// library's algorithm does beyond that, in its workspace for example, is not in it.
class CountedProducts final : public layers::cuda::Products {
 public:
  using Product = layers::cuda::Product;

  explicit CountedProducts(cuda::Precision precision) : precision_(precision) {}

  std::unique_ptr<Product> plan(const layers::cuda::ConvolutionProblem& problem,
                                std::string_view name) override;
  std::unique_ptr<Product> plan(const layers::cuda::MatrixProblem& problem) override;
  std::vector<std::string> alternatives(const layers::cuda::ConvolutionProblem&) override {
    return {};
  }

 private:
  const cuda::Precision precision_;
};

}  // namespace poseidon::bench
