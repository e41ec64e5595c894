#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/cpu/cpu_device.h"
#include "layers/cpu/team_loops.h"
#include "layers/cpu/vectors.h"
#include "layers/layer.h"
#include "layers/layer_types.h"

namespace poseidon::layers::cpu {

using poseidon::cpu::CpuDevice;

/// Base class of the CPU layers. Parameters are in canonical order, unless a subclass packs them.
class CpuLayer : public Layer {
 public:
  CpuLayer(const LayerRequest& request, CpuDevice& device)
      : device_(device),
        name_(request.definition.name),
        parameters_(request.definition.parameters()) {
    needs_.input_formats = request.input_formats;
    if (!request.input_formats.empty()) needs_.output_format = request.input_formats[0];
  }

  int64_t packed_count(int index) const override { return spec(index).shape.count(); }
  void pack(int index, const float* canonical, float* packed) const override {
    std::copy_n(canonical, spec(index).shape.count(), packed);
  }
  void unpack(int index, const float* packed, float* canonical) const override {
    std::copy_n(packed, spec(index).shape.count(), canonical);
  }
  bool packed_is_canonical(int) const override { return true; }

 protected:
  ThreadTeam& team() const { return device_.team(); }
  const ParameterSpec& spec(int index) const { return parameters_[static_cast<size_t>(index)]; }

  CpuDevice& device_;
  std::string name_;
  std::vector<ParameterSpec> parameters_;
};

/// Creates the factory of the CPU layers.
std::unique_ptr<LayerFactory> make_cpu_factory(CpuDevice& device);

/// The makers of the layer types. Several types may share a maker. The CPU factory finds the maker
/// by the definition's type.
#define POSEIDON_MAKER(type, Class, maker, description) \
  std::unique_ptr<Layer> make_##maker(const LayerRequest& request, CpuDevice& device);
POSEIDON_LAYER_TYPES(POSEIDON_MAKER)
#undef POSEIDON_MAKER

/// Creates a LayerOf<Element> for the C++ type of a format's elements.
template <template <class Element> class LayerOf>
std::unique_ptr<Layer> make_for_element_of(const Format& format, const LayerRequest& request,
                                           CpuDevice& device) {
  return with_element_of(format.type, [&](auto element) -> std::unique_ptr<Layer> {
    return std::make_unique<LayerOf<decltype(element)>>(request, device);
  });
}

/// A warning that names the passes for which oneDNN only has reference code; "" if there are no
/// such passes.
std::string reference_code_warning(const LayerRequest& request, const Implementations& by);

/// Adds the other output gradients to output_gradients[0], and returns output_gradients[0]. With a
/// fused relu, also multiplies the sum by the derivative of the relu, which has the negative slope
/// `relu`. Up to three gradients need one pass over memory. One gradient without relu needs no
/// pass.
const Tensor& combined_gradient(ThreadTeam& team, const Bindings& memory,
                                std::optional<float> relu);

}  // namespace poseidon::layers::cpu
