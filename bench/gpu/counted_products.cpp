#include "bench/gpu/counted_products.h"

#include "bench/gpu/cost_model_driver.h"
#include "core/bf16.h"

namespace poseidon::bench {

namespace {

using cuda::Precision;
using layers::cuda::ConvolutionProblem;
using layers::cuda::MatrixProblem;
using layers::cuda::Product;
using layers::cuda::ProductMemory;
using Pass = ConvolutionProblem::Pass;

/// The bytes that a product reads and writes, its arithmetic and its launches.
struct Counts {
  std::string name;
  size_t first_bytes = 0, second_bytes = 0, bias_bytes = 0, result_bytes = 0;
  /// Size of a bf16 result that a second kernel converts to fp32; 0: none.
  size_t narrow_bytes = 0;
  Cost cost;
};

class CountedProductOperation final : public CountedOperation {
 public:
  CountedProductOperation(std::shared_ptr<const Counts> counts, const ProductMemory& memory)
      : counts_(std::move(counts)), memory_(memory) {}

  std::string name() const override { return counts_->name; }
  Cost cost() const override { return counts_->cost; }
  void issue(const cuda::Executor&) const override {}
  void visit(cuda::MemoryVisitor& visitor) const override {
    visitor.reads(memory_.first, counts_->first_bytes);
    visitor.reads(memory_.second, counts_->second_bytes);
    visitor.reads(memory_.bias, counts_->bias_bytes);
    visitor.writes(memory_.workspace, counts_->narrow_bytes);
    visitor.reads(memory_.workspace, counts_->narrow_bytes);
    visitor.writes(memory_.result, counts_->result_bytes);
  }

 private:
  std::shared_ptr<const Counts> counts_;
  ProductMemory memory_;
};

class CountedProduct final : public Product {
 public:
  explicit CountedProduct(Counts counts)
      : counts_(std::make_shared<const Counts>(std::move(counts))) {}

  std::string name() const override { return counts_->name; }
  size_t workspace_bytes() const override { return counts_->narrow_bytes; }
  std::unique_ptr<const cuda::Operation> operation(const ProductMemory& memory) const override {
    return std::make_unique<CountedProductOperation>(counts_, memory);
  }

 private:
  std::shared_ptr<const Counts> counts_;
};

const char* convolution_name(Pass pass) {
  switch (pass) {
    case Pass::kForward: return "convolution";
    case Pass::kBackwardData: return "convolution's input gradient";
    case Pass::kBackwardWeights: break;
  }
  return "convolution's weight gradient";
}

Counts counts_of(const ConvolutionProblem& problem, Arithmetic arithmetic) {
  const layers::Convolution& geometry = problem.geometry;
  const auto bytes = [&](int64_t count) {
    return static_cast<size_t>(count) * bytes_of(problem.type);
  };
  const int64_t weights = geometry.outputs * geometry.input.channels() / geometry.groups *
                          geometry.kernel[0] * geometry.kernel[1];
  const size_t input = bytes(geometry.input.count()), output = bytes(geometry.output.count());
  Counts counts{.name = convolution_name(problem.pass),
                .cost = {.flop = 2 * static_cast<double>(geometry.multiply_adds()),
                         .arithmetic = arithmetic}};
  counts.first_bytes = problem.pass == Pass::kForward ? input : output;
  counts.second_bytes = problem.pass == Pass::kBackwardWeights ? input : bytes(weights);
  counts.result_bytes = problem.pass == Pass::kForward ? output : input;
  if (problem.pass != Pass::kBackwardWeights) return counts;
  counts.result_bytes = static_cast<size_t>(weights) * sizeof(float);
  if (problem.type != DataType::kBf16) return counts;
  counts.narrow_bytes = bytes(weights);
  counts.cost.launches = 2;
  return counts;
}

Counts counts_of(const MatrixProblem& problem, Arithmetic arithmetic) {
  const auto bytes = [](int64_t rows, int64_t columns) {
    return static_cast<size_t>(rows * columns) * sizeof(float);
  };
  return {
      .name = "matrix product",
      .first_bytes = bytes(problem.rows, problem.depth),
      .second_bytes = bytes(problem.depth, problem.columns),
      .bias_bytes = problem.bias ? bytes(1, problem.columns) : 0,
      .result_bytes = bytes(problem.rows, problem.columns),
      .cost = {.flop = 2.0 * static_cast<double>(problem.rows) *
                       static_cast<double>(problem.columns) * static_cast<double>(problem.depth),
               .arithmetic = arithmetic}};
}

}  // namespace

std::unique_ptr<Product> CountedProducts::plan(const ConvolutionProblem& problem,
                                               std::string_view) {
  const Arithmetic arithmetic = problem.type == DataType::kBf16  ? Arithmetic::kBf16
                                : precision_ == Precision::kFp32 ? Arithmetic::kFp32
                                                                 : Arithmetic::kTf32;
  return std::make_unique<CountedProduct>(counts_of(problem, arithmetic));
}

std::unique_ptr<Product> CountedProducts::plan(const MatrixProblem& problem) {
  return std::make_unique<CountedProduct>(
      counts_of(problem, precision_ == Precision::kFp32 ? Arithmetic::kFp32 : Arithmetic::kTf32));
}

}  // namespace poseidon::bench
