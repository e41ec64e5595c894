#pragma once

#include "layers/cuda/runtime/cublaslt_matrix.h"
#include "layers/cuda/runtime/cudnn_convolution.h"

namespace poseidon::layers::cuda {

/// The products of NVIDIA's libraries, for the layers of a GPU: convolutions by cuDNN, matrices by
/// cuBLASLt.
class LibraryProducts final : public Products {
 public:
  /// For the GPU of this number, which must be the current one. Throws RunError.
  LibraryProducts(int device, const poseidon::cuda::Settings& settings)
      : convolutions_(CudnnDevice::running(device), settings), matrices_(settings) {}

  std::unique_ptr<Product> plan(const ConvolutionProblem& problem, std::string_view name) override;
  std::unique_ptr<Product> plan(const MatrixProblem& problem) override;
  std::vector<std::string> alternatives(const ConvolutionProblem& problem) override;

 private:
  CudnnConvolutions convolutions_;
  CublasltMatrices matrices_;
};

/// The same for those that know no library.
std::unique_ptr<Products> make_library_products(int device,
                                                const poseidon::cuda::Settings& settings);

/// "cuDNN 9.19.0, cuBLASLt 13.1.0", as they were found when this was loaded.
std::string library_versions();

}  // namespace poseidon::layers::cuda
