// The requests for matrix products to a library that rejects some of them.

#include <doctest/doctest.h>

#include "layers/cuda/cuda_layer.h"
#include "layers/cuda/matrix_requests.h"
#include "layers/cuda/update.h"
#include "tests/layers_cuda/compare_with_cpu.h"
#include "tests/support/gpu/emulated_gpu_backend.h"
#include "tests/support/gpu/host_products.h"

using namespace poseidon;
using namespace poseidon::test;
using layers::cuda::MatrixProblem;
using layers::cuda::MatrixRequest;
using layers::cuda::plan_first;
using layers::cuda::Product;
using poseidon::cuda::Precision;

namespace {

/// A matrix product on the host, planned for a request.
class RequestedProduct final : public Product {
 public:
  explicit RequestedProduct(const MatrixRequest& request)
      : product_(HostProducts().plan(request.problem)),
        epilogue_(request.epilogue),
        note_(request.note) {}

  std::string name() const override { return "host" + note_; }
  size_t workspace_bytes() const override { return product_->workspace_bytes(); }
  bool has_epilogue() const override { return epilogue_; }
  std::unique_ptr<const poseidon::cuda::Operation> operation(
      const layers::cuda::ProductMemory& memory) const override {
    return product_->operation(memory);
  }

 private:
  const std::unique_ptr<Product> product_;
  const bool epilogue_;
  const std::string note_;
};

/// Plans a product with a library that rejects the first `rejected` requests. Returns null if the
/// library rejects all.
std::unique_ptr<Product> plan_after(int rejected, const MatrixProblem& problem,
                                    Precision precision) {
  return plan_first(problem, precision,
                    [&rejected](const MatrixRequest& request) -> std::unique_ptr<Product> {
                      if (rejected-- > 0) return nullptr;
                      return std::make_unique<RequestedProduct>(request);
                    });
}

/// Products of the host, whose matrix products have no epilogue.
class ProductsWithoutEpilogue final : public layers::cuda::Products {
 public:
  std::unique_ptr<Product> plan(const layers::cuda::ConvolutionProblem& problem,
                                std::string_view name) override {
    return HostProducts().plan(problem, name);
  }
  std::unique_ptr<Product> plan(const MatrixProblem& problem) override {
    const bool has_epilogue = problem.bias || problem.relu;
    return plan_after(has_epilogue ? 2 : 0, problem, Precision::kFp32);
  }
  std::vector<std::string> alternatives(const layers::cuda::ConvolutionProblem&) override {
    return {};
  }
};

/// "mask+epilogue, epilogue, plain": the requests that a library receives if it rejects all.
std::string requests_for(const MatrixProblem& problem, Precision precision) {
  std::string all;
  const auto record = [&](const MatrixRequest& request) -> std::unique_ptr<Product> {
    CHECK(request.problem.rows == problem.rows);
    CHECK(request.epilogue ==
          (request.problem.bias == problem.bias && request.problem.relu == problem.relu));
    all += text(all.empty() ? "" : ", ", request.fp32_mask ? "mask+" : "",
                request.epilogue ? "epilogue" : "plain");
    return nullptr;
  };
  CHECK(plan_first(problem, precision, record) == nullptr);
  return all;
}

LayerBackend without_epilogues(int, DataType) {
  auto device = std::make_unique<poseidon::cuda::CudaDevice>(
      std::make_unique<poseidon::cuda::FakeDriver>(poseidon::cuda::FakeDriver::Options{.seed = 1}),
      kEmulatedGpuSettings);
  auto factory =
      layers::cuda::make_cuda_factory(*device, std::make_unique<ProductsWithoutEpilogue>());
  auto updater = layers::cuda::make_cuda_updater(*device);
  return {std::move(device), std::move(factory), std::move(updater)};
}

}  // namespace

TEST_CASE("matrix products: the requests drop first the fp32 mask, then the epilogue") {
  const MatrixProblem plain{.rows = 2, .columns = 3, .depth = 4};
  MatrixProblem bias = plain, relu = plain;
  bias.bias = true;
  relu.relu = true;
  CHECK(requests_for(plain, Precision::kFp32) == "mask+epilogue, epilogue");
  CHECK(requests_for(bias, Precision::kFp32) == "mask+epilogue, epilogue, plain");
  CHECK(requests_for(relu, Precision::kFp32) == "mask+epilogue, epilogue, plain");
  for (const Precision precision : {Precision::kTf32, Precision::kBf16}) {
    CHECK(requests_for(plain, precision) == "epilogue");
    CHECK(requests_for(bias, precision) == "epilogue, plain");
  }
}

TEST_CASE("matrix products: the name states which request succeeded") {
  const MatrixProblem problem{.rows = 2, .columns = 3, .depth = 4, .bias = true};
  const auto name = [&](Precision precision, int rejected) {
    return plan_after(rejected, problem, precision)->name();
  };
  CHECK(name(Precision::kFp32, 0) == "host");
  CHECK(name(Precision::kFp32, 1) == "host (no fp32 mask)");
  CHECK(name(Precision::kFp32, 2) == "host (no fp32 mask, no epilogue)");
  CHECK(name(Precision::kTf32, 1) == "host (no epilogue)");
}

TEST_CASE("linear: a product without epilogue is followed by bias and relu") {
  for (const bool bias : {true, false})
    for (const std::optional<float> relu : {std::optional<float>(), {0.0F}, {0.1F}}) {
      if (!bias && relu != 0.0F) continue;  // has no epilogue
      CAPTURE(bias);
      LayerCase layer{.json = {{"type", "linear"}, {"outputs", 6}, {"bias", bias}},
                      .inputs = {{5, 9}},
                      .relu = relu};
      const LayerInputs values = random_inputs(LayerRunner(layer), layer, 1);
      const LayerResults expected = LayerRunner(layer).run(values);
      layer.backend = without_epilogues;
      LayerRunner runner(layer);
      CHECK(runner.layer().implementations().forward ==
            "cuBLASLt host (no fp32 mask, no epilogue)");
      const LayerResults got = runner.run(values);
      check_close(got.output, expected.output, 1e-6, "output");
      check_close(got.input_gradients[0], expected.input_gradients[0], 1e-6, "input gradient");
    }
}
