#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/bf16.h"
#include "core/cuda/cuda_device.h"
#include "layers/cuda/products.h"
#include "layers/layer.h"
#include "layers/layer_types.h"

namespace poseidon::layers::cuda {

using poseidon::cuda::CudaDevice;

/// Returns the default format of a layer's inputs and output: channels last for images (rank 4),
/// plain layout for other tensors.
inline Format format_of(const Shape& shape, DataType type) {
  return {shape.rank() == 4 ? Layout::kChannelsLast : Layout::kPlain, type};
}

/// Base class of the GPU layers. By default, packed order is canonical order, and all inputs and
/// the output have the element type of the first input. A subclass may override both.
class CudaLayer : public Layer {
 public:
  CudaLayer(const LayerRequest& request, CudaDevice& device);

  int64_t packed_count(int index) const override { return spec(index).shape.count(); }
  void pack(int index, const float* canonical, float* packed) const override {
    copy_parameter(index, canonical, packed);
  }
  void unpack(int index, const float* packed, float* canonical) const override {
    copy_parameter(index, packed, canonical);
  }
  bool packed_is_canonical(int) const override { return true; }

 protected:
  const ParameterSpec& spec(int index) const { return parameters_[static_cast<size_t>(index)]; }
  /// Passes all elements of the parameters' gradients to `sink`.
  void pass_gradients(const Bindings& memory, const GradientSink& sink) const;

  CudaDevice& device_;
  std::string name_;
  std::vector<ParameterSpec> parameters_;

 private:
  void copy_parameter(int index, const float* from, float* to) const {
    device_.copy(from, to, static_cast<size_t>(packed_count(index)) * sizeof(float));
  }
};

/// Returns the LayerFactory of a GPU. The device must outlive the factory. The factory must outlive
/// its layers.
std::unique_ptr<LayerFactory> make_cuda_factory(CudaDevice& device,
                                                std::unique_ptr<Products> products);

/// Arguments of the make_ functions below, in addition to the request.
struct LayerContext {
  CudaDevice& device;
  Products& products;
};

/// Declares the function make_MAKER of each maker in POSEIDON_LAYER_TYPES. The factory calls the
/// function of the definition's type.
#define POSEIDON_MAKER(type, Class, maker, description) \
  std::unique_ptr<Layer> make_##maker(const LayerRequest& request, const LayerContext& context);
POSEIDON_LAYER_TYPES(POSEIDON_MAKER)
#undef POSEIDON_MAKER

/// Makes a layer that converts its input from format `from` to format `to`. Its backward pass
/// converts the gradient back.
std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to, CudaDevice& device);

/// Issues a copy of `from` to `to`, in the format of `to`. fp32 elements are rounded if `to` is
/// bf16.
void issue_reorder(CudaDevice& device, const Tensor& from, const Tensor& to);

std::unique_ptr<BatchInput> make_batch_input(CudaDevice& device);

/// Calls `visitor` with a value of the element type: float or Bf16.
template <class Visitor>
auto with_element_of(DataType type, const Visitor& visitor) {
  return type == DataType::kBf16 ? visitor(Bf16{}) : visitor(float{});
}

/// Issues output_gradients[0] = (sum of all output_gradients) * derivative of a fused relu at
/// `memory.output`, and returns output_gradients[0]. `relu`: the negative slope; empty: no relu.
/// Issues nothing if there is one output gradient and no relu.
const Tensor& combined_gradient(CudaDevice& device, const Bindings& memory,
                                std::optional<float> relu);

}  // namespace poseidon::layers::cuda
