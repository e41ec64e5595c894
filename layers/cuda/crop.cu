#include "layers/crop.h"

#include "layers/cuda/channels.cuh"
#include "layers/cuda/clear.cuh"
#include "layers/cuda/divisor.cuh"

namespace poseidon::layers::cuda {

namespace {

/// The position of the part (the output) in the whole (the input). A thread processes a group of
/// neighboring channels of one position.
struct CropPlan {
  uint32_t samples, channels;
  uint32_t whole_height, whole_width, height, width, top, left;
  Divisor groups, columns, rows;  ///< sizes of the tensor that the kernel iterates over

  int64_t whole_count() const { return int64_t{samples} * whole_height * whole_width * channels; }
  int64_t part_count() const { return int64_t{samples} * height * width * channels; }

  struct Place {
    uint32_t channel, x, y, sample;
  };
  POSEIDON_DEVICE Place place(uint32_t index, uint32_t each) const {
    Place place;
    place.channel = groups.take_from(index) * each;
    place.x = columns.take_from(index);
    place.y = rows.take_from(index);
    place.sample = index;
    return place;
  }
  POSEIDON_DEVICE int64_t in_whole(const Place& at, uint32_t y, uint32_t x) const {
    return ((int64_t{at.sample} * whole_height + y) * whole_width + x) * channels + at.channel;
  }
  POSEIDON_DEVICE int64_t in_part(const Place& at, uint32_t y, uint32_t x) const {
    return ((int64_t{at.sample} * height + y) * width + x) * channels + at.channel;
  }
};

/// Copies the part out of the whole. Iterates over the part.
template <class Element, int kWidth>
struct CropKernel {
  static constexpr const char* kName = "crop";
  static constexpr uint32_t kThreads = 256;

  CropPlan plan;
  const Element* in;
  Element* out;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(plan.whole_count()));
    visitor.writes(out, bytes_of_elements<Element>(plan.part_count()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const auto at = plan.place(thread.block() * kThreads + thread.thread(), kWidth);
    if (at.sample >= plan.samples) return;
    store_channels<kWidth>(
        out + plan.in_part(at, at.y, at.x),
        load_channels<kWidth>(in + plan.in_whole(at, plan.top + at.y, plan.left + at.x)));
  }
};

/// Writes the gradient of the whole, which is zero outside the part. Iterates over the whole.
template <class Element, int kWidth>
struct CropBackwardKernel {
  static constexpr const char* kName = "gradient of crop";
  static constexpr uint32_t kThreads = 256;

  CropPlan plan;
  const Element* gradient;
  Element* target;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(gradient, bytes_of_elements<Element>(plan.part_count()));
    visitor.writes(target, bytes_of_elements<Element>(plan.whole_count()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const auto at = plan.place(thread.block() * kThreads + thread.thread(), kWidth);
    if (at.sample >= plan.samples) return;
    // A position before the part wraps around to a large unsigned value.
    const uint32_t y = at.y - plan.top, x = at.x - plan.left;
    Channels<kWidth> values{};
    if (y < plan.height && x < plan.width)
      values = load_channels<kWidth>(gradient + plan.in_part(at, y, x));
    store_channels<kWidth>(target + plan.in_whole(at, at.y, at.x), values);
  }
};

class CudaCrop final : public CudaLayer {
 public:
  CudaCrop(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), crop_(static_cast<const Crop&>(request.definition)) {
    needs_.input_formats[1] = request.input_formats[1];
  }

  void forward(const StepContext&, const Bindings& memory) override {
    with_kernels([&](auto element, auto width) {
      using Element = decltype(element);
      device_.launch_for(
          crop_.output.count() / width,
          CropKernel<Element, width>{plan_for(crop_.output, width), memory.inputs[0].as<Element>(),
                                     memory.output.as<Element>()});
    });
  }

  void backward(const StepContext&, const Bindings& memory) override {
    if (memory.input_gradients[1]) clear(device_, memory.input_gradients[1]);
    if (!memory.input_gradients[0]) return;
    const Tensor& gradient = combined_gradient(device_, memory, std::nullopt);
    with_kernels([&](auto element, auto width) {
      using Element = decltype(element);
      device_.launch_for(
          crop_.input.count() / width,
          CropBackwardKernel<Element, width>{plan_for(crop_.input, width), gradient.as<Element>(),
                                             memory.input_gradients[0].as<Element>()});
    });
  }

 private:
  template <class Use>
  void with_kernels(const Use& use) const {
    with_channels_of(needs_.output_format.type, crop_.input.channels(), use);
  }

  CropPlan plan_for(const Shape& gone_through, int each) const {
    const auto number = [](int64_t value) { return static_cast<uint32_t>(value); };
    return {.samples = number(crop_.input.samples()),
            .channels = number(crop_.input.channels()),
            .whole_height = number(crop_.input.height()),
            .whole_width = number(crop_.input.width()),
            .height = number(crop_.output.height()),
            .width = number(crop_.output.width()),
            .top = number(crop_.offset[0]),
            .left = number(crop_.offset[1]),
            .groups = Divisor(number(crop_.input.channels() / each)),
            .columns = Divisor(number(gone_through.width())),
            .rows = Divisor(number(gone_through.height()))};
  }

  const Crop& crop_;
};

}  // namespace

std::unique_ptr<Layer> make_crop(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaCrop>(request, context.device);
}

}  // namespace poseidon::layers::cuda
