#pragma once

#include <memory>
#include <string>

#include "layers/cpu/bf16_emulation.h"
#include "layers/cpu/bf16_product.h"
#include "layers/cpu/convolution_pass.h"

/// Code that convolutions and their transposes share on a CPU.
namespace poseidon::layers::cpu {

/// The requirements of a layer for the convolution that computes its passes.
struct ConvolutionOptions {
  DataType type = DataType::kFp32;
  std::string layout = {};  ///< AlgorithmChoice::layout; only channels last changes the fixed rule
  std::optional<float> relu = std::nullopt;  ///< the negative slope of a relu on the output
  bool training = true;
};

/// Chooses the formats by the fixed rule, and collects the data that the passes need. The formats
/// are channels last if options.layout requests this layout and fast code exists for it. The first
/// three arguments must outlive the result.
ConvolutionParts choose_parts(CpuDevice& device, const Convolution& convolution,
                              const OnednnConvolution& onednn, const ConvolutionOptions& options);

/// The names of the methods in a layer's AlgorithmChoice. These constants are not inline, because
/// the linker could use one copy of an inline variable for all instruction sets
/// (poseidon_link_kernels).
constexpr const char *kDirect = "direct", *kWinograd = "winograd", *kProduct = "product";

/// Creates a pass by one method. A maker of the direct method returns nullptr if a product of
/// patches should replace that method.
using PassMaker = std::unique_ptr<ConvolutionPass> (*)(const ConvolutionParts&);

/// Creates a pass by `method`, and sets `method` to the method used. kProduct requests a product.
/// Any other value requests the direct method, but a product replaces direct code that is slow or
/// may be wrong.
std::unique_ptr<ConvolutionPass> make_direct_or_product(const ConvolutionParts& parts,
                                                        std::string& method, PassMaker direct,
                                                        PassMaker product);

/// The passes of a layer. nullptr: the layer does not need the pass.
struct ConvolutionPasses {
  std::unique_ptr<ConvolutionPass> forward, backward_data, backward_weights;

  /// The maximum over the passes.
  size_t scratch_bytes() const;
  Implementations implementations() const;
};

/// Creates a layer for the device's type of activations. Without a bf16 product, fp32 code with
/// make_bf16_emulation() computes bf16.
template <class ConvolutionLayer>
std::unique_ptr<Layer> make_for_activations(const LayerRequest& request, CpuDevice& device) {
  if (device.activations() == DataType::kFp32)
    return std::make_unique<ConvolutionLayer>(request, device, DataType::kFp32);
  if (product::has_bf16_product())
    return std::make_unique<ConvolutionLayer>(request, device, DataType::kBf16);
  LayerRequest inner = request;
  for (Format& format : inner.input_formats) format.type = DataType::kFp32;
  return make_bf16_emulation(device.team(), request,
                             std::make_unique<ConvolutionLayer>(inner, device, DataType::kFp32));
}

}  // namespace poseidon::layers::cpu
