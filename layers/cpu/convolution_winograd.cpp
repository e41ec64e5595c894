#include <algorithm>

#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/pass_weight.h"
#include "layers/cpu/winograd.h"

namespace poseidon::layers::cpu {

namespace {

using namespace poseidon::cpu;

WinogradGeometry geometry_of(const Convolution& convolution) {
  return {.kernel = convolution.kernel[0],
          .padding = convolution.padding.before,
          .groups = convolution.groups,
          .input = convolution.input,
          .output = convolution.output};
}

/// The weight orders that Winograd's method reads.
struct Orders {
  FormatTag forward, backward;
};
Orders orders_of(const Convolution& convolution) {
  const bool groups = convolution.groups > 1;
  if (WinogradGeometry::lanes() == 16)
    return groups ? Orders{FormatTag::gOIhw16i16o, FormatTag::gOIhw16o16i}
                  : Orders{FormatTag::OIhw16i16o, FormatTag::OIhw16o16i};
  return groups ? Orders{FormatTag::gOIhw8i8o, FormatTag::gOIhw8o8i}
                : Orders{FormatTag::OIhw8i8o, FormatTag::OIhw8o8i};
}

bool geometry_is_legal(const Convolution& c) {
  constexpr std::array<int64_t, 2> kOne{1, 1};
  const int64_t kernel = c.kernel[0];
  const auto &before = c.padding.before, &after = c.padding.after;
  return (kernel == 3 || kernel == 5) && c.kernel[1] == kernel && c.stride == kOne &&
         c.dilation == kOne && std::max({before[0], before[1], after[0], after[1]}) < kernel &&
         c.input.channels() / c.groups % WinogradGeometry::lanes() == 0 &&
         c.outputs / c.groups % WinogradGeometry::lanes() == 0;
}

class WinogradForward final : public ConvolutionPass {
 public:
  explicit WinogradForward(const ConvolutionParts& parts)
      : bias_(parts.convolution.bias),
        relu_(parts.relu),
        winograd_(Winograd::make(geometry_of(parts.convolution), parts.formats.type,
                                 parts.device.team())) {}

  std::string implementation() const override { return "Poseidon Winograd"; }
  size_t scratch_bytes() const override { return winograd_->forward_scratch_bytes(); }

  void run(const Bindings& memory, const Tensor&) override {
    const float* bias = bias_ ? memory.parameters[1].value : nullptr;
    winograd_->forward(memory.inputs[0].data, memory.parameters[0].value,
                       {.bias = bias, .relu = relu_}, memory.output.data, memory.scratch);
  }

 private:
  bool bias_;
  std::optional<float> relu_;
  std::unique_ptr<Winograd> winograd_;
};

class WinogradBackwardData final : public ConvolutionPass {
 public:
  explicit WinogradBackwardData(const ConvolutionParts& parts)
      : device_(parts.device),
        weight_(parts.device, parts.onednn.weight_shape(), parts.kept_weight,
                {parts.onednn.weight_shape(), kFloat, orders_of(parts.convolution).backward}),
        winograd_(Winograd::make(geometry_of(parts.convolution).of_backward_data(),
                                 parts.formats.type, parts.device.team())) {}

  std::string implementation() const override { return "Poseidon Winograd"; }
  size_t scratch_bytes() const override {
    return weight_.scratch_bytes() + winograd_->forward_scratch_bytes();
  }

  void run(const Bindings& memory, const Tensor& gradient) override {
    Scratch scratch(memory.scratch);
    const void* weight = weight_.get(device_, memory.parameters[0].value, scratch);
    winograd_->forward(gradient.data, static_cast<const float*>(weight), {.turned = true},
                       memory.input_gradients[0].data, scratch.rest());
  }

 private:
  CpuDevice& device_;
  PassWeight weight_;
  std::unique_ptr<Winograd> winograd_;
};

class WinogradBackwardWeights final : public ConvolutionPass {
 public:
  explicit WinogradBackwardWeights(const ConvolutionParts& parts)
      : bias_(parts.convolution.bias),
        winograd_(Winograd::make(geometry_of(parts.convolution), parts.formats.type,
                                 parts.device.team())) {}

  std::string implementation() const override { return "Poseidon Winograd"; }
  size_t scratch_bytes() const override { return winograd_->backward_weights_scratch_bytes(); }

  void run(const Bindings& memory, const Tensor& gradient) override {
    winograd_->backward_weights(memory.inputs[0].data, gradient.data, memory.parameters[0].gradient,
                                bias_ ? memory.parameters[1].gradient : nullptr, memory.scratch);
  }

 private:
  bool bias_;
  std::unique_ptr<Winograd> winograd_;
};

}  // namespace

bool winograd_is_legal(const ConvolutionParts& parts) {
  const Layout blocked = parts.device.blocked_layout();
  const bool is_that_of_winograd =
      (blocked == Layout::kBlocked16) == (WinogradGeometry::lanes() == 16);
  return geometry_is_legal(parts.convolution) && is_that_of_winograd &&
         parts.formats.in == blocked && parts.formats.out == blocked &&
         parts.kept_weight ==
             MemoryDesc(parts.onednn.weight_shape(), kFloat, orders_of(parts.convolution).forward);
}

/// Winograd's method does fewer multiply-adds: 2.8 times fewer for kernels of 5, and 4 times fewer
/// for kernels of 3. But Winograd's method moves the transformed weight and tiles through memory.
/// So the method is faster only if many tiles use each transformed weight.
///
/// Speed relative to oneDNN's direct method, all three passes, on Zen 4:
///   32 tiles with 16 or 512 channels             1.4
///   16 tiles with 512 channels                   1
///   8 tiles with 512 channels                    0.7
///   maximum (128 channels at 28 x 28)            2.8
///
/// With bf16 the direct method is twice as fast as with fp32, because it uses bf16 instructions.
/// Winograd's method does not use these instructions. Time relative to the direct method, all three
/// passes, on Zen 5:
///   kernels of 5, 32 channels, 6,400 tiles       1.36
///   kernels of 3, 256 channels, 128 tiles        0.95
///   kernels of 3, 512 channels, 32 tiles         1.36
bool winograd_is_faster(const ConvolutionParts& parts) {
  const WinogradGeometry geometry = geometry_of(parts.convolution);
  if (parts.formats.type == DataType::kBf16) return geometry.kernel == 3 && geometry.tiles() >= 96;
  return geometry.tiles() >= 32;
}

std::unique_ptr<ConvolutionPass> make_winograd_forward(const ConvolutionParts& parts) {
  return std::make_unique<WinogradForward>(parts);
}

std::unique_ptr<ConvolutionPass> make_winograd_backward_data(const ConvolutionParts& parts) {
  return std::make_unique<WinogradBackwardData>(parts);
}

std::unique_ptr<ConvolutionPass> make_winograd_backward_weights(const ConvolutionParts& parts) {
  return std::make_unique<WinogradBackwardWeights>(parts);
}

}  // namespace poseidon::layers::cpu
