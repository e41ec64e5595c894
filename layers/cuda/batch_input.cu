#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

/// out[i] = (in[i] - mean) * factor, with mean and factor of the channel of i. fp32 results equal
/// those of data::normalize_window() bit for bit, since the operations are the same. A thread
/// processes 16 values; the last thread processes the remaining values.
template <class Element, uint32_t kChannels>
struct NormalizePixelsKernel {
  static constexpr const char* kName = "normalize pixels";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kEach = kPack<uint8_t>;

  const uint8_t* in;
  Element* out;
  int64_t count;
  float mean[kChannels], factor[kChannels];

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<uint8_t>(count));
    visitor.writes(out, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t place = thread.block() * kThreads + thread.thread();
    const int64_t first = int64_t{place} * kEach;
    const uint32_t channel = place % kChannels * (kEach % kChannels) % kChannels;
    if (first + kEach <= count)
      whole_pack(first, channel);
    else
      for (uint32_t i = 0; first + i < count; ++i)
        out[first + i] = normalized(static_cast<float>(in[first + i]), (channel + i) % kChannels);
  }

  POSEIDON_DEVICE float normalized(float pixel, uint32_t channel) const {
    return (pixel - mean[channel]) * factor[channel];
  }

  /// `channel`: the channel of in[first].
  POSEIDON_DEVICE void whole_pack(int64_t first, uint32_t channel) const {
    float subtracted[kChannels], multiplied[kChannels];
#pragma unroll
    for (uint32_t c = 0; c < kChannels; ++c) {
      subtracted[c] = mean[(channel + c) % kChannels];
      multiplied[c] = factor[(channel + c) % kChannels];
    }
    const Pack<uint8_t> pixels = load_pack(in + first);
#pragma unroll
    for (uint32_t k = 0; k < kEach; k += kPack<Element>) {
      Pack<Element> values;
#pragma unroll
      for (uint32_t i = 0; i < kPack<Element>; ++i)
        values[static_cast<int>(i)] =
            (pixels[static_cast<int>(k + i)] - subtracted[(k + i) % kChannels]) *
            multiplied[(k + i) % kChannels];
      store_pack(out + first + k, values);
    }
  }
};

/// Converts labels to floats. Labels up to 2^24 are exact.
struct LabelsKernel {
  static constexpr const char* kName = "labels";
  static constexpr uint32_t kThreads = 256;

  const int32_t* in;
  float* out;
  uint32_t count;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<int32_t>(count));
    visitor.writes(out, bytes_of_elements<float>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t i = thread.block() * kThreads + thread.thread();
    if (i < count) out[i] = static_cast<float>(in[i]);
  }
};

template <uint32_t kChannels>
void issue_normalize(CudaDevice& device, const BatchValues& batch, const Tensor& input) {
  with_element_of(input.format.type, [&](auto element) {
    using Kernel = NormalizePixelsKernel<decltype(element), kChannels>;
    Kernel kernel{batch.pixels.data(), input.as<decltype(element)>(), count_of(input), {}, {}};
    for (uint32_t c = 0; c < kChannels; ++c) {
      kernel.mean[c] = batch.normalization->mean[c];
      kernel.factor[c] = batch.normalization->factor[c];
    }
    device.launch_for(poseidon::cuda::blocks_for(kernel.count, Kernel::kEach), kernel);
  });
}

class CudaBatchInput final : public BatchInput {
 public:
  explicit CudaBatchInput(CudaDevice& device) : device_(device) {}

  bool accepts_pixels(const Shape& shape) const override {
    return shape.channels() == 1 || shape.channels() == 3;
  }
  Format format_for(const Shape& shape, Format wanted) const override {
    const bool same_order = shape.channels() == 1 || !accepts_pixels(shape);
    return same_order ? wanted : format_of(shape, wanted.type);
  }
  void write(const BatchValues& batch, const Tensor& input) override {
    if (!batch.are_pixels())
      issue_reorder(device_, {const_cast<float*>(batch.floats.data()), input.shape, kPlainFp32},
                    input);
    else if (input.shape.channels() == 1)
      issue_normalize<1>(device_, batch, input);
    else
      issue_normalize<3>(device_, batch, input);
  }
  void write_labels(std::span<const int32_t> labels, const Tensor& to) override {
    const LabelsKernel kernel{labels.data(), to.as<float>(), static_cast<uint32_t>(labels.size())};
    device_.launch_for(kernel.count, kernel);
  }

 private:
  CudaDevice& device_;
};

}  // namespace

std::unique_ptr<BatchInput> make_batch_input(CudaDevice& device) {
  return std::make_unique<CudaBatchInput>(device);
}

}  // namespace poseidon::layers::cuda
