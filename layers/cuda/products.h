#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/cuda_device.h"
#include "layers/convolution.h"

/// Convolutions and matrix products, which libraries compute (cuDNN, cuBLASLt); in tests the host.
namespace poseidon::layers::cuda {

using poseidon::cuda::Precision;

/// The memory of one product: two factors and the result, which is written, never accumulated.
struct ProductMemory {
  const void* first = nullptr;
  const void* second = nullptr;
  void* result = nullptr;
  const float* bias = nullptr;  ///< where the problem has one
  std::byte* workspace = nullptr;
};

/// A product that a library has planned. Its memory is given at each call.
class Product {
 public:
  virtual ~Product() = default;
  /// The algorithm, as the library calls it: the same for the same problem wherever that is of the
  /// same release and sees the same kind of GPU.
  virtual std::string name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  virtual std::unique_ptr<const poseidon::cuda::Operation> operation(
      const ProductMemory& memory) const = 0;
};

/// One pass of a convolution. Activations are channels last, of `type`; the weight is (outputs,
/// kernel height, kernel width, inputs / groups), of `type`, its gradient in the same order, fp32.
struct ConvolutionProblem {
  enum class Pass : uint8_t {
    kForward,          ///< input, weight: output
    kBackwardData,     ///< gradient of the output, weight: gradient of the input
    kBackwardWeights,  ///< gradient of the output, input: gradient of the weight
  };
  Pass pass = Pass::kForward;
  const Convolution& geometry;
  DataType type = DataType::kFp32;
};

/// result = op(first) op(second), all dense and row by row, fp32: of `rows` x `depth` and `depth` x
/// `columns` numbers. A factor that is transposed lies in memory as its transpose.
struct MatrixProblem {
  int64_t rows = 0, columns = 0, depth = 0;
  bool transpose_first = false, transpose_second = false;
  bool bias = false;  ///< is added to each row
  bool relu = false;  ///< is applied then
};

/// Plans products for one device, as precisely as its settings say.
class Products {
 public:
  virtual ~Products() = default;
  /// By the algorithm of this name (Product::name); "": by a fixed rule. Throws ConfigError where
  /// the library has nothing for it, or the settings do not allow what is named.
  virtual std::unique_ptr<Product> plan(const ConvolutionProblem& problem,
                                        std::string_view name) = 0;
  /// By a fixed rule. Throws ConfigError where the library has nothing for it.
  virtual std::unique_ptr<Product> plan(const MatrixProblem& problem) = 0;
  /// The names of all algorithms that plan() takes, the rule's first.
  virtual std::vector<std::string> alternatives(const ConvolutionProblem& problem) = 0;
};

}  // namespace poseidon::layers::cuda
