#include "layers/slice.h"

#include "layers/cpu/channel_slice.h"
#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// The input's format, if the slice begins at a block and ends at a block or with the last channel.
/// Else the layout is plain.
Format format_of_slice(const LayerRequest& request, const Slice& slice) {
  Format format = request.input_formats[0];
  if (format.layout == Layout::kChannelsLast) return format;
  const Blocking b(request.input_shapes[0], format.layout);
  const bool whole_blocks =
      slice.begin % b.block == 0 && (slice.end % b.block == 0 || slice.end == b.channels);
  if (!whole_blocks) format.layout = Layout::kPlain;
  return format;
}

class CpuSlice final : public CpuLayer {
 public:
  CpuSlice(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device), slice_(static_cast<const Slice&>(request.definition)) {
    needs_.output_format = format_of_slice(request, slice_);
    needs_.input_formats = {needs_.output_format};
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const Tensor& whole = memory.inputs[0];
    ChannelSlice(memory.output, whole, slice_.begin).copy_from(team(), whole);
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor& whole = memory.input_gradients[0];
    if (!whole) return;
    clear(team(), whole);
    ChannelSlice(combined_gradient(team(), memory, std::nullopt), whole, slice_.begin)
        .copy_into(team(), whole);
  }

 private:
  const Slice& slice_;
};

}  // namespace

std::unique_ptr<Layer> make_slice(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuSlice>(request, device);
}

}  // namespace poseidon::layers::cpu
