#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/bf16.h"
#include "core/cuda/cuda_device.h"
#include "layers/cuda/products.h"
#include "layers/layer.h"
#include "layers/makers.h"

namespace poseidon::layers::cuda {

using poseidon::cuda::CudaDevice;

/// The format that layers here take and give images in: channels last. Tensors without height and
/// width have one layout only.
inline Format format_of(const Shape& shape, DataType type) {
  return {shape.rank() == 4 ? Layout::kChannelsLast : Layout::kPlain, type};
}

/// Base of the layers of GPUs. Parameters are kept in canonical order unless a layer packs them
/// otherwise. A layer takes all of its inputs as what the first of them is given as.
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

  CudaDevice& device_;
  std::string name_;
  std::vector<ParameterSpec> parameters_;

 private:
  void copy_parameter(int index, const float* from, float* to) const {
    device_.copy(from, to, static_cast<size_t>(packed_count(index)) * sizeof(float));
  }
};

/// Makes the layers of a GPU (LayerFactory for this device), which must outlive it.
std::unique_ptr<LayerFactory> make_cuda_factory(CudaDevice& device,
                                                std::unique_ptr<Products> products);

/// What the makers of layers are given.
struct Making {
  CudaDevice& device;
  Products& products;
};

/// One maker for each layer type, or for several; make_cuda_factory looks them up by the
/// definition's type.
#define POSEIDON_MAKER(type, maker) \
  std::unique_ptr<Layer> make_##maker(const LayerRequest& request, const Making& making);
POSEIDON_LAYER_MAKERS(POSEIDON_MAKER)
#undef POSEIDON_MAKER

/// A layer that copies its input into another format; its gradient back.
std::unique_ptr<Layer> make_reorder(const Shape& shape, Format from, Format to, CudaDevice& device);

/// Issues a copy of an activation into another format.
void issue_reorder(CudaDevice& device, const Tensor& from, const Tensor& to);

std::unique_ptr<BatchInput> make_batch_input(CudaDevice& device);

/// Calls `visitor` with a value of the type that the elements have: float or Bf16.
template <class Visitor>
auto with_element_of(DataType type, const Visitor& visitor) {
  return type == DataType::kBf16 ? visitor(Bf16{}) : visitor(float{});
}

/// Issues the sum of the contributions to the output's gradient, multiplied by a fused relu's
/// derivative at `output`, to output_gradients[0], which it returns; nothing where that is it.
const Tensor& combined_gradient(CudaDevice& device, const Bindings& memory,
                                std::optional<float> relu);

}  // namespace poseidon::layers::cuda
