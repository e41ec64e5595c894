#include "layers/tile.h"

#include "layers/cuda/channels.cuh"

namespace poseidon::layers::cuda {

namespace {

/// The common part of both kernels. For each position, the untiled tensor has a row of `channels`
/// elements, and the tiled tensor has a row of `tiles` * `channels` elements. A thread processes
/// kWidth neighboring channels.
template <class Element, int kWidth>
struct TileRows {
  static constexpr uint32_t kThreads = 256;

  int64_t rows;
  uint32_t channels, tiles;

  int64_t groups() const { return rows * (channels / kWidth); }
  size_t row_bytes() const { return bytes_of_elements<Element>(rows * channels); }
  size_t tiled_bytes() const { return row_bytes() * tiles; }

  /// The channels that a thread copies: their offset in the untiled tensor, and the offset of their
  /// first copy in the tiled tensor.
  struct Group {
    int64_t once, tiled;
    bool is_there;  ///< false: the thread has no channels
  };
  POSEIDON_DEVICE Group group(const Thread& thread) const {
    const int64_t first = (int64_t{thread.block()} * kThreads + thread.thread()) * kWidth;
    const uint32_t row = static_cast<uint32_t>(first / kWidth) / (channels / kWidth);
    return {first, first + int64_t{row} * channels * (tiles - 1), row < rows};
  }
};

template <class Element, int kWidth>
struct TileKernel : TileRows<Element, kWidth> {
  static constexpr const char* kName = "tile";

  const Element* in;
  Element* out;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, this->row_bytes());
    visitor.writes(out, this->tiled_bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const auto group = this->group(thread);
    if (!group.is_there) return;
    const Channels<kWidth> values = load_channels<kWidth>(in + group.once);
    for (uint32_t tile = 0; tile < this->tiles; ++tile)
      store_channels<kWidth>(out + group.tiled + int64_t{tile} * this->channels, values);
  }
};

/// The gradient of the untiled tensor: the sum of the tiles' gradients, in the order of the tiles.
template <class Element, int kWidth>
struct TileBackwardKernel : TileRows<Element, kWidth> {
  static constexpr const char* kName = "gradient of tile";

  const Element* gradient;
  Element* target;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient, this->tiled_bytes());
    visitor.writes(target, this->row_bytes());
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const auto group = this->group(thread);
    if (!group.is_there) return;
    Channels<kWidth> sum = load_channels<kWidth>(gradient + group.tiled);
    for (uint32_t tile = 1; tile < this->tiles; ++tile) {
      const Channels<kWidth> next =
          load_channels<kWidth>(gradient + group.tiled + int64_t{tile} * this->channels);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) sum[i] += next[i];
    }
    store_channels<kWidth>(target + group.once, sum);
  }
};

class CudaTile final : public CudaLayer {
 public:
  CudaTile(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device),
        rows_(request.input_shapes[0].samples() * request.input_shapes[0].area()),
        channels_(static_cast<uint32_t>(request.input_shapes[0].channels())),
        tiles_(static_cast<uint32_t>(static_cast<const Tile&>(request.definition).tiles)) {}

  void forward(const StepContext&, const Bindings& memory) override {
    with_kernels([&](auto element, auto width) {
      using Element = decltype(element);
      const TileRows<Element, width> rows{rows_, channels_, tiles_};
      device_.launch_for(rows.groups(),
                         TileKernel<Element, width>{
                             {rows}, memory.inputs[0].as<Element>(), memory.output.as<Element>()});
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    with_kernels([&](auto element, auto width) {
      using Element = decltype(element);
      const TileRows<Element, width> rows{rows_, channels_, tiles_};
      device_.launch_for(
          rows.groups(),
          TileBackwardKernel<Element, width>{
              {rows}, gradient.as<Element>(), memory.input_gradients[0].as<Element>()});
    });
  }

 private:
  template <class Use>
  void with_kernels(const Use& use) const {
    with_channels_of(needs_.output_format.type, channels_, use);
  }

  int64_t rows_;
  uint32_t channels_, tiles_;
};

}  // namespace

std::unique_ptr<Layer> make_tile(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaTile>(request, context.device);
}

}  // namespace poseidon::layers::cuda
