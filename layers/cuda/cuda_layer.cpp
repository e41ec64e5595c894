#include "layers/cuda/cuda_layer.h"

namespace poseidon::layers::cuda {

CudaLayer::CudaLayer(const LayerRequest& request, CudaDevice& device)
    : device_(device),
      name_(request.definition.name),
      parameters_(request.definition.parameters()) {
  const DataType type = request.input_formats.at(0).type;
  for (const Shape& shape : request.input_shapes)
    needs_.input_formats.push_back(format_of(shape, type));
  needs_.output_format = format_of(request.output_shape, type);
}

void CudaLayer::pass_gradients(const Bindings& memory, const GradientSink& sink) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    sink(static_cast<int>(i), 0,
         {memory.parameters[i].gradient, static_cast<size_t>(parameters_[i].shape.count())});
}

}  // namespace poseidon::layers::cuda
