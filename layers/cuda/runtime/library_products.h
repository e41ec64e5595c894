#pragma once

#include "layers/cuda/runtime/cublaslt_matrix.h"
#include "layers/cuda/runtime/cudnn_convolution.h"

namespace poseidon::layers::cuda {

/// Products by NVIDIA's libraries: convolutions by cuDNN, matrix products by cuBLASLt.
class LibraryProducts final : public Products {
 public:
  /// `device`: index of the GPU, which must be the current one. Throws RunError if the GPU cannot
  /// be used.
  LibraryProducts(int device, const poseidon::cuda::Settings& settings)
      : convolutions_(CudnnDevice::running(device), settings), matrices_(device, settings) {}

  std::unique_ptr<Product> plan(const ConvolutionProblem& problem, std::string_view name) override;
  std::unique_ptr<Product> plan(const MatrixProblem& problem) override;
  std::vector<std::string> alternatives(const ConvolutionProblem& problem) override;

 private:
  CudnnConvolutions convolutions_;
  CublasltMatrices matrices_;
};

std::unique_ptr<Products> make_library_products(int device,
                                                const poseidon::cuda::Settings& settings);

/// The versions of the loaded libraries: "cuDNN 9.19.0, cuBLASLt 13.1.0".
std::string library_versions();

}  // namespace poseidon::layers::cuda
