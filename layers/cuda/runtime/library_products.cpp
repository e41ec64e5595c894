#include "layers/cuda/runtime/library_products.h"

#include <cublasLt.h>
#include <cudnn.h>

#include "core/error.h"

namespace poseidon::layers::cuda {

std::unique_ptr<Product> LibraryProducts::plan(const ConvolutionProblem& problem) {
  return convolutions_.plan(problem);
}

std::unique_ptr<Product> LibraryProducts::plan(const MatrixProblem& problem) {
  return matrices_.plan(problem);
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
