#pragma once

#include <memory>
#include <string>

#include "core/cpu/instruction_set.h"
#include "layers/cpu/bf16_emulation.h"
#include "layers/cpu/convolution_pass.h"

/// What convolutions and their transposes have in common on a CPU.
namespace poseidon::layers::cpu {

/// What a layer asks of the convolution that its passes are of.
struct ConvolutionWish {
  DataType type = DataType::kFp32;
  std::string layout = {};  ///< where one is chosen
  std::optional<float> relu = std::nullopt;
  bool training = true;
};

/// The formats that the rule takes, and what the passes need to know. All must outlive the parts.
ConvolutionParts choose_parts(CpuDevice& device, const Convolution& convolution,
                              const OnednnConvolution& onednn, const ConvolutionWish& wish);

/// The names of the methods in a layer's Choice. Not inline: levels share no object
/// (poseidon_link_kernels).
constexpr const char *kDirect = "direct", *kWinograd = "winograd", *kProduct = "product";

/// A pass by a method, or nullptr.
using PassMaker = std::unique_ptr<ConvolutionPass> (*)(const ConvolutionParts&);

/// Makes a pass by the method that is asked for: kDirect, kProduct, or "" for the direct one where
/// it is not slow. A product takes the place of a slow direct method. Sets `method` to the one
/// used.
std::unique_ptr<ConvolutionPass> make_direct_or_product(const ConvolutionParts& parts,
                                                        std::string& method, PassMaker direct,
                                                        PassMaker product);

/// The passes of a layer. A pass that it does not need is nullptr.
struct ConvolutionPasses {
  std::unique_ptr<ConvolutionPass> forward, backward_data, backward_weights;

  /// Whether all are (ConvolutionPass::is_fast).
  bool are_fast() const;
  /// Of the pass that needs most.
  size_t scratch_bytes() const;
  Implementations implementations() const;
};

/// A layer that is made for a type of activations, for those of the device: by its own code for
/// bf16 where that is fast, else by that for fp32.
template <class ConvolutionLayer>
std::unique_ptr<Layer> make_for_activations(const LayerRequest& request, CpuDevice& device) {
  if (device.activations() == DataType::kFp32)
    return std::make_unique<ConvolutionLayer>(request, device, DataType::kFp32);
  if (poseidon::cpu::has_bf16_products()) {
    auto layer = std::make_unique<ConvolutionLayer>(request, device, DataType::kBf16);
    if (layer->is_fast()) return layer;
  }
  LayerRequest inner = request;
  for (Format& format : inner.input_formats) format.type = DataType::kFp32;
  return make_bf16_emulation(request,
                             std::make_unique<ConvolutionLayer>(inner, device, DataType::kFp32));
}

}  // namespace poseidon::layers::cpu
