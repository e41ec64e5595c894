#pragma once

#include "layers/cuda/products.h"

namespace poseidon::bench {

/// Products that are never computed. Each reports its minimum cost on a GPU: one read of each
/// operand, one write of the result, and the multiply-adds of its definition. A bf16 weight
/// gradient also has the cost of its conversion to fp32. Other work of a library's algorithm, for
/// example in its workspace, is not counted.
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
