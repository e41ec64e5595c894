#include "layers/concat.h"

#include <cstring>

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// Blocked pieces can be laid down whole when each, but for the last, fills its blocks.
bool fills_blocks(const LayerRequest& request, Layout layout) {
  for (size_t i = 0; i + 1 < request.input_shapes.size(); ++i) {
    const Blocking blocking(request.input_shapes[i], layout);
    if (blocking.channels % blocking.block != 0) return false;
  }
  return true;
}

/// Where one input lies in the output: `runs` runs of `length` bytes, `stride` apart in the output
/// and dense in the input.
struct Piece {
  int64_t runs, length, stride, start;
};

Piece piece_of(const Tensor& part, const Tensor& whole, int64_t first_channel) {
  const Blocking p = part.blocking(), w = whole.blocking();
  const auto bytes = static_cast<int64_t>(bytes_of(whole.format.type));
  if (whole.format.layout == Layout::kChannelsLast)
    return {p.samples * p.area, p.channels * bytes, w.channels * bytes, first_channel * bytes};
  return {p.samples, p.blocks * p.block * p.area * bytes, w.blocks * w.block * w.area * bytes,
          w.offset(0, first_channel, 0) * bytes};
}

class CpuConcat final : public CpuLayer {
 public:
  CpuConcat(const LayerRequest& request, CpuDevice& device) : CpuLayer(request, device) {
    Format format = common_format(request);
    if (format.layout != Layout::kChannelsLast && !fills_blocks(request, format.layout))
      format.layout = Layout::kPlain;
    needs_.output_format = format;
    needs_.input_formats.assign(request.input_shapes.size(), format);
  }

  void forward(const StepContext&, const Bindings& memory) override {
    int64_t channel = 0;
    for (const Tensor& input : memory.inputs) {
      const Piece piece = piece_of(input, memory.output, channel);
      copy_runs(input.as<std::byte>(), piece.length, memory.output.as<std::byte>() + piece.start,
                piece.stride, piece);
      channel += input.shape.channels();
    }
  }

  void backward(const StepContext&, const Bindings& memory) override {
    const Tensor& whole = memory.output_gradients[0];
    const auto* gradient = combined_gradient(memory, std::nullopt).as<std::byte>();
    int64_t channel = 0;
    for (const Tensor& part : memory.input_gradients) {
      const Piece piece = piece_of(part, whole, channel);
      if (part)
        copy_runs(gradient + piece.start, piece.stride, part.as<std::byte>(), piece.length, piece);
      channel += part.shape.channels();
    }
  }

 private:
  static void copy_runs(const std::byte* source, int64_t source_stride, std::byte* target,
                        int64_t target_stride, const Piece& piece) {
#pragma omp parallel for schedule(static)
    for (int64_t run = 0; run < piece.runs; ++run)
      std::memcpy(target + run * target_stride, source + run * source_stride,
                  static_cast<size_t>(piece.length));
  }
};

}  // namespace

std::unique_ptr<Layer> make_concat(const LayerRequest& request, CpuDevice& device) {
  return std::make_unique<CpuConcat>(request, device);
}

}  // namespace poseidon::layers::cpu
