#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/cuda/cuda_device.h"
#include "layers/convolution.h"

/// The interface to the libraries that compute products. A product is a convolution (cuDNN) or a
/// matrix product (cuBLASLt). In tests, host code computes them.
namespace poseidon::layers::cuda {

using poseidon::cuda::Precision;

/// The memory of one product. `first` and `second` are the factors. The result is overwritten, not
/// accumulated.
struct ProductMemory {
  const void* first = nullptr;
  const void* second = nullptr;
  void* result = nullptr;
  const float* bias = nullptr;     ///< null unless MatrixProblem::bias and has_epilogue()
  std::byte* workspace = nullptr;  ///< Product::workspace_bytes() bytes
};

/// A planned product. The plan does not depend on addresses: the caller passes the memory to each
/// call of operation().
class Product {
 public:
  virtual ~Product() = default;
  /// The name of the algorithm. It selects the same algorithm again for the same problem, library
  /// release and GPU model.
  virtual std::string name() const = 0;
  virtual size_t workspace_bytes() const = 0;
  /// False: the result lacks the bias and the relu of the MatrixProblem. The caller then applies
  /// them (add_bias).
  virtual bool has_epilogue() const { return true; }
  virtual std::unique_ptr<const poseidon::cuda::Operation> operation(
      const ProductMemory& memory) const = 0;
};

/// One pass of a convolution. Activations are channels last with elements of `type`. The weight is
/// (outputs, kernel height, kernel width, inputs / groups) with elements of `type`. The weight's
/// gradient has the same order and is fp32.
struct ConvolutionProblem {
  enum class Pass : uint8_t {
    kForward,          ///< (input, weight) -> output
    kBackwardData,     ///< (gradient of the output, weight) -> gradient of the input
    kBackwardWeights,  ///< (gradient of the output, input) -> gradient of the weight
  };
  Pass pass = Pass::kForward;
  const Convolution& geometry;
  DataType type = DataType::kFp32;
};

/// result = op(first) * op(second). All matrices are dense, row-major and fp32. op(first) is rows x
/// depth, op(second) is depth x columns. If a factor's transpose flag is set, the factor is stored
/// transposed.
struct MatrixProblem {
  int64_t rows = 0, columns = 0, depth = 0;
  bool transpose_first = false, transpose_second = false;
  bool bias = false;  ///< add a bias of `columns` values to each row
  bool relu = false;  ///< apply relu to the result, after the bias
};

/// Plans products for one device. The plans obey the device's settings, for example its precision.
class Products {
 public:
  virtual ~Products() = default;
  /// Plans a convolution with the algorithm `name` (Product::name). Throws ConfigError if
  /// the library does not have this algorithm, or if the settings do not allow it. If `name` is
  /// empty, a fixed rule selects an algorithm that the settings allow. Throws ConfigError if there
  /// is none.
  virtual std::unique_ptr<Product> plan(const ConvolutionProblem& problem,
                                        std::string_view name) = 0;
  /// Plans a matrix product. A fixed rule selects the algorithm. Throws ConfigError if the library
  /// has no algorithm that the settings allow.
  virtual std::unique_ptr<Product> plan(const MatrixProblem& problem) = 0;
  /// The names of all algorithms that plan() accepts for this problem. The algorithm that the fixed
  /// rule selects comes first.
  virtual std::vector<std::string> alternatives(const ConvolutionProblem& problem) = 0;
};

}  // namespace poseidon::layers::cuda
