#include "layers/dropout.h"

#include "layers/cuda/channels.cuh"

namespace poseidon::layers::cuda {

namespace {

/// Number of elements for which one Philox block has random words.
constexpr uint32_t kDecided = 4;

/// The parameters of a pass. An element is kept if its random word is at least `threshold`. A kept
/// element is multiplied by `scale`.
struct DropoutNumbers {
  const StepParameters* step;
  uint64_t key;
  uint32_t threshold;
  float scale;

  void visit(MemoryVisitor& visitor) const { visitor.reads(step, sizeof(StepParameters)); }

  POSEIDON_DEVICE RandomStream stream(uint32_t sample) const {
    return Dropout::stream_of(*step, key, sample);
  }
  /// Bit i is set if element kDecided * block + i of the stream's sample is kept.
  POSEIDON_DEVICE uint32_t kept(const RandomStream& stream, uint32_t block) const {
    const PhiloxBlock words = stream.at(block);
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t i = 0; i < kDecided; ++i) bits |= (words[i] >= threshold ? 1U : 0U) << i;
    return bits;
  }
  POSEIDON_DEVICE float apply(float value, bool is_kept) const {
    return is_kept ? value * scale : 0;
  }
};

/// Dropout of samples in canonical order. A thread processes 16 bytes of one sample. The random
/// words of these elements are whole Philox blocks, so no two threads compute the same block. `out`
/// may be `in`.
template <class Element>
struct DenseDropoutKernel {
  static constexpr const char* kName = "dropout";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kEach = kPack<Element>;
  static_assert(kEach % kDecided == 0);

  const Element* in;
  Element* out;
  uint32_t samples, features;
  DropoutNumbers numbers;

  uint32_t parts() const { return (features + kEach - 1) / kEach; }
  int64_t thread_count() const { return int64_t{samples} * parts(); }

  void visit(MemoryVisitor& visitor) const {
    numbers.visit(visitor);
    visitor.reads(in, bytes_of_elements<Element>(int64_t{samples} * features));
    visitor.writes(out, bytes_of_elements<Element>(int64_t{samples} * features));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const uint32_t across = (features + kEach - 1) / kEach;
    const uint32_t sample = index / across, first = index % across * kEach;
    if (sample >= samples) return;
    const int64_t offset = int64_t{sample} * features + first;
    const RandomStream stream = numbers.stream(sample);
    uint32_t bits = 0;
#pragma unroll
    for (uint32_t b = 0; b < kEach; b += kDecided)
      bits |= numbers.kept(stream, (first + b) / kDecided) << b;
    if (features % kEach == 0) {
      Pack<Element> pack = load_pack(in + offset);
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) pack[i] = numbers.apply(pack[i], bits >> i & 1U);
      store_pack(out + offset, pack);
    } else {
      for (uint32_t i = 0; i < kEach && first + i < features; ++i)
        out[offset + i] = numbers.apply(in[offset + i], bits >> i & 1U);
    }
  }
};

/// Dropout of channels-last images. A thread processes four neighboring positions and kWidth
/// channels. For each channel, the thread computes one Philox block if the area is a multiple of
/// four, else up to two.
template <class Element, int kWidth>
struct ImageDropoutKernel {
  static constexpr const char* kName = "dropout of images";
  static constexpr uint32_t kThreads = 128;
  static_assert(kWidth * kDecided <= 32);

  const Element* in;
  Element* out;
  uint32_t samples, channels, area;
  DropoutNumbers numbers;

  int64_t thread_count() const {
    return int64_t{samples} * ((area + kDecided - 1) / kDecided) * (channels / kWidth);
  }

  void visit(MemoryVisitor& visitor) const {
    const int64_t count = int64_t{samples} * channels * area;
    numbers.visit(visitor);
    visitor.reads(in, bytes_of_elements<Element>(count));
    visitor.writes(out, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t index = thread.block() * kThreads + thread.thread();
    const uint32_t groups = channels / kWidth, quads = (area + kDecided - 1) / kDecided;
    const uint32_t channel = index % groups * kWidth;
    const uint32_t position = index / groups % quads * kDecided;
    const uint32_t sample = index / groups / quads;
    if (sample >= samples) return;
    const int64_t offset = (int64_t{sample} * area + position) * channels + channel;
    const RandomStream stream = numbers.stream(sample);
    // The thread first computes all decisions, as bits of one register, and then loads the values
    // position by position. This order needs a quarter of the registers that the values of all
    // positions would need.
    uint32_t bits = 0;
#pragma unroll 2
    for (uint32_t c = 0; c < kWidth; ++c)
      bits |= kept_from(stream, (channel + c) * area + position) << c * kDecided;
#pragma unroll
    for (uint32_t p = 0; p < kDecided; ++p) {
      if (position + p >= area) return;
      Channels<kWidth> values = load_channels<kWidth>(in + offset + p * channels);
#pragma unroll
      for (uint32_t c = 0; c < kWidth; ++c)
        values[c] = numbers.apply(values[c], bits >> (c * kDecided + p) & 1U);
      store_channels<kWidth>(out + offset + p * channels, values);
    }
  }

  /// Bit i is set if element `element + i` is kept, for i < kDecided.
  POSEIDON_DEVICE uint32_t kept_from(const RandomStream& stream, uint32_t element) const {
    const uint32_t block = element / kDecided, past = element % kDecided;
    uint32_t bits = numbers.kept(stream, block);
    if (past == 0) return bits;
    bits |= numbers.kept(stream, block + 1) << kDecided;
    return bits >> past & ((1U << kDecided) - 1);
  }
};

/// Dropout. The backward pass computes the mask again. A stored mask would need memory, and reading
/// the mask would cost more than the random numbers. Some threads compute random
/// numbers while other threads wait for memory.
class CudaDropout final : public CudaLayer {
 public:
  CudaDropout(const LayerRequest& request, CudaDevice& device)
      : CudaLayer(request, device), dropout_(static_cast<const Dropout&>(request.definition)) {
    needs_.forward_in_place = needs_.backward_in_place = 0;
  }

  void forward(const StepContext& step, const Bindings& memory) override {
    const Tensor &input = memory.inputs[0], &output = memory.output;
    if (step.phase == Phase::kTest)
      device_.copy(input.data, output.data, stored_bytes(output.shape, output.format));
    else
      apply(step, input, output);
  }

  void backward(const StepContext& step, const Bindings& memory) override {
    if (!memory.input_gradients[0]) return;
    apply(step, combined_gradient(device_, memory, std::nullopt), memory.input_gradients[0]);
  }

 private:
  void apply(const StepContext& step, const Tensor& input, const Tensor& output) {
    const bool drops = step.phase == Phase::kTrain;
    const DropoutNumbers numbers{.step = step.numbers,
                                 .key = random_key(dropout_.name),
                                 .threshold = drops ? dropout_.threshold() : 0,
                                 .scale = drops ? dropout_.scale() : 1};
    with_element_of(output.format.type, [&](auto element) {
      using Element = decltype(element);
      launch(input.as<Element>(), output.as<Element>(), output.shape, numbers);
    });
  }

  template <class Element>
  void launch(const Element* in, Element* out, const Shape& shape, const DropoutNumbers& numbers) {
    const auto samples = static_cast<uint32_t>(shape.samples());
    const auto channels = static_cast<uint32_t>(shape.channels());
    const auto area = static_cast<uint32_t>(shape.area());
    if (area == 1 || channels == 1) {
      const DenseDropoutKernel<Element> kernel{in, out, samples, channels * area, numbers};
      device_.launch_for(kernel.thread_count(), kernel);
      return;
    }
    with_channels_of<Element>(channels, [&](auto width) {
      const ImageDropoutKernel<Element, width> kernel{in, out, samples, channels, area, numbers};
      device_.launch_for(kernel.thread_count(), kernel);
    });
  }

  const Dropout& dropout_;
};

}  // namespace

std::unique_ptr<Layer> make_dropout(const LayerRequest& request, const LayerContext& context) {
  return std::make_unique<CudaDropout>(request, context.device);
}

}  // namespace poseidon::layers::cuda
