#include "layers/tile.h"

#include "layers/cpu/elementwise.h"

namespace poseidon::layers::cpu {

namespace {

/// The input's format if its channels fill the blocks, else plain layout.
Format format_of_tiles(const LayerRequest& request) {
  Format format = request.input_formats[0];
  const Blocking b(request.input_shapes[0], format.layout);
  if (b.channels % b.block != 0) format.layout = Layout::kPlain;
  return format;
}

/// The input consists of runs of elements. The output has each run `tiles` times in sequence.
template <class Element>
class CpuTile final : public CpuLayer {
 public:
  CpuTile(const LayerRequest& request, CpuDevice& device)
      : CpuLayer(request, device),
        tiles_(static_cast<const Tile&>(request.definition).tiles),
        runs_(request.input_shapes[0].samples()) {
    const Format format = format_of_tiles(request);
    needs_.input_formats = {format};
    needs_.output_format = format;
    if (format.layout == Layout::kChannelsLast) runs_ *= request.input_shapes[0].area();
    length_ = request.input_shapes[0].count() / runs_;
  }

  void forward(const StepContext&, const Bindings& memory) override {
    const auto* in = memory.inputs[0].as<Element>();
    auto* out = memory.output.as<Element>();
    for_each_pair(team(), runs_, tiles_, length_, [&](int64_t run, int64_t tile) {
      std::copy_n(in + run * length_, length_, out + (run * tiles_ + tile) * length_);
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    const auto* gradient = combined_gradient(team(), memory, std::nullopt).template as<Element>();
    auto* target = memory.input_gradients[0].as<Element>();
    for_each_item(team(), runs_, tiles_ * length_, [&](int64_t run) {
      add_tiles(gradient + run * tiles_ * length_, target + run * length_);
    });
  }

 private:
  void add_tiles(const Element* gradient, Element* target) const {
    for (int64_t i = 0; i < length_; ++i) {
      float sum = gradient[i];
      for (int64_t tile = 1; tile < tiles_; ++tile) sum += gradient[tile * length_ + i];
      target[i] = sum;
    }
  }

  int64_t tiles_, runs_, length_;
};

}  // namespace

std::unique_ptr<Layer> make_tile(const LayerRequest& request, CpuDevice& device) {
  return make_for_element_of<CpuTile>(request.input_formats[0], request, device);
}

}  // namespace poseidon::layers::cpu
