#include "layers/crop.h"

#include <cstring>

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// Within a channel block, a row of the output is contiguous in memory in every layout.
class CpuCrop final : public CpuLayer {
 public:
  CpuCrop(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), crop_(static_cast<const Crop&>(request.definition)) {}

  void forward(const StepContext&, const Bindings& memory) override {
    for_each_row(memory.output, [&](int64_t whole, int64_t part, size_t bytes) {
      std::memcpy(memory.output.as<std::byte>() + part, memory.inputs[0].as<std::byte>() + whole,
                  bytes);
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    for (const Tensor& gradient : memory.input_gradients)
      if (gradient) clear(team(), gradient);
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(team(), memory, std::nullopt);
    for_each_row(gradient, [&](int64_t whole, int64_t part, size_t bytes) {
      std::memcpy(memory.input_gradients[0].as<std::byte>() + whole,
                  gradient.as<std::byte>() + part, bytes);
    });
  }

 private:
  /// Calls use(offset of a row in the input, its offset in the output, its length), all in bytes.
  template <class Use>
  void for_each_row(const Tensor& part, const Use& use) const {
    const Blocking b = part.blocking();
    const int64_t cell = b.block * static_cast<int64_t>(bytes_of(part.format.type));
    const int64_t height = crop_.output.height(), width = crop_.output.width();
    const auto bytes = static_cast<size_t>(width * cell);
    const int64_t planes = b.samples * b.blocks;
    for_each_pair(team(), planes, height, width * b.block, [&](int64_t plane, int64_t y) {
      const int64_t row = plane * crop_.input.height() + crop_.offset[0] + y;
      use((row * crop_.input.width() + crop_.offset[1]) * cell, (plane * height + y) * width * cell,
          bytes);
    });
  }

  const Crop& crop_;
};

}  // namespace

std::unique_ptr<Layer> make_crop(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuCrop>(request, device);
}

}  // namespace poseidon::layers::cpu
