#include "layers/cuda/runtime/library_products.h"

#include <cublasLt.h>
#include <cudnn.h>

#include "core/error.h"

namespace poseidon::layers::cuda {

std::unique_ptr<Product> LibraryProducts::plan(const ConvolutionProblem& problem,
                                               std::string_view name) {
  return name.empty() ? convolutions_.plan(problem) : convolutions_.plan(problem, name);
}

std::unique_ptr<Product> LibraryProducts::plan(const MatrixProblem& problem) {
  return matrices_.plan(problem);
}

std::vector<std::string> LibraryProducts::alternatives(const ConvolutionProblem& problem) {
  return convolutions_.alternatives(problem);
}

std::unique_ptr<Products> make_library_products(int device,
                                                const poseidon::cuda::Settings& settings) {
  return std::make_unique<LibraryProducts>(device, settings);
}

std::string library_versions() {
  const size_t dnn = cudnnGetVersion(), blas = cublasLtGetVersion();
  return text("cuDNN ", dnn / 10000, ".", dnn % 10000 / 100, ".", dnn % 100, ", cuBLASLt ",
              blas / 10000, ".", blas % 10000 / 100, ".", blas % 100);
}

}  // namespace poseidon::layers::cuda
