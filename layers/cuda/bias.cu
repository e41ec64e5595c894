#include "layers/cuda/bias.h"

#include <algorithm>
#include <numeric>

#include "layers/cuda/map.cuh"

namespace poseidon::layers::cuda {

namespace {

using poseidon::cuda::blocks_for;

struct ReluAfterBias {
  static constexpr const char* kName = "fused relu";
  float slope;
  POSEIDON_DEVICE float operator()(float y) const { return y > 0 ? y : y * slope; }
};

/// y[i] = relu(y[i] + bias[i % channels]). A thread processes 16 bytes; the last thread processes
/// the remaining elements.
template <class Element>
struct AddBiasKernel {
  static constexpr const char* kName = "bias forward";
  static constexpr uint32_t kThreads = 256;
  static constexpr int kCount = kPack<Element>;

  Element* y;
  const float* bias;
  int64_t count;
  uint32_t channels;
  uint32_t packs;      ///< packs in the least number of rows that fill whole packs
  ReluAfterBias relu;  ///< slope 1: no relu

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(bias, bytes_of_elements<float>(channels));
    visitor.reads(y, bytes_of_elements<Element>(count));
    visitor.writes(y, bytes_of_elements<Element>(count));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t number = thread.block() * kThreads + thread.thread();
    const int64_t first = int64_t{number} * kCount;
    uint32_t channel = number % packs * kCount;
    if (channel >= channels) channel %= channels;
    if (first + kCount > count) {
      for (int64_t i = first; i < count; ++i) {
        y[i] = relu(static_cast<float>(y[i]) + bias[channel]);
        channel = following(channel);
      }
      return;
    }
    const Pack<Element> added = channels % kCount == 0 ? whole_bias(channel) : any_bias(channel);
    Pack<Element> pack = load_pack(y + first);
#pragma unroll
    for (int i = 0; i < kCount; ++i) pack[i] = relu(pack[i] + added[i]);
    store_pack(y + first, pack);
  }

  POSEIDON_DEVICE uint32_t following(uint32_t channel) const {
    return channel + 1 == channels ? 0 : channel + 1;
  }

  POSEIDON_DEVICE Pack<Element> whole_bias(uint32_t channel) const {
    Pack<Element> added;
#pragma unroll
    for (int k = 0; k < kCount; k += kPack<float>) {
      const Pack<float> some = load_pack(bias + channel + k);
#pragma unroll
      for (int i = 0; i < kPack<float>; ++i) added[k + i] = some[i];
    }
    return added;
  }

  POSEIDON_DEVICE Pack<Element> any_bias(uint32_t channel) const {
    Pack<Element> added;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      added[i] = bias[channel];
      channel = following(channel);
    }
    return added;
  }
};

/// combined[i] = (sum of in[k][i] in order of k) * derivative of a relu at output[i]. Each block
/// also writes the sum of these values over its wide rows (BiasGradient) to `partial`. The threads
/// of a block form `lanes` lanes of `width` threads; these are not the lanes of a warp. A thread
/// sums one pack over every `lanes`-th wide row. Then the block adds the sums of its lanes by
/// pairs.
template <class Element>
struct BiasGradientKernel {
  static constexpr const char* kName = "gradient of a bias";
  static constexpr uint32_t kThreads = 256;
  static constexpr int kCount = kPack<Element>;
  struct Shared {
    float sums[kCount][kThreads];
  };

  const Element* in[kContributions];
  int contributions;
  const Element* output;  ///< null: no relu
  float slope;
  Element* combined;  ///< null: not written
  float* partial;     ///< receives one wide row of sums for each Thread::block_y
  int64_t count;
  uint32_t packs, rows;  ///< packs in a wide row; number of wide rows
  /// A block processes `width` packs of `lanes` wide rows at a time, and `rows_of_block` wide rows
  /// in total.
  uint32_t width, lanes, rows_of_block;
  uint32_t blocks_down;

  void visit(MemoryVisitor& visitor) const {
    for (int k = 0; k < contributions; ++k) visitor.reads(in[k], bytes_of_elements<Element>(count));
    if (output != nullptr) visitor.reads(output, bytes_of_elements<Element>(count));
    if (combined != nullptr) visitor.writes(combined, bytes_of_elements<Element>(count));
    visitor.writes(partial, bytes_of_elements<float>(int64_t{blocks_down} * packs * kCount));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t lane = thread.thread() / width;
    const uint32_t pack = thread.block() * width + thread.thread() % width;
    const bool works = lane < lanes && pack < packs;
    Pack<Element> sum{};
    if (works) sum = sum_of_rows(thread.block_y() * rows_of_block + lane, last_row(thread), pack);
    add_lanes(thread, lane, sum, shared);
    if (works && lane == 0) store_partial(thread.block_y(), pack, sum);
  }

  POSEIDON_DEVICE uint32_t last_row(const Thread& thread) const {
    const uint32_t end = (thread.block_y() + 1) * rows_of_block;
    return end < rows ? end : rows;
  }

  POSEIDON_DEVICE Pack<Element> sum_of_rows(uint32_t row, uint32_t end, uint32_t pack) const {
    Pack<Element> sum{};
    for (; row < end; row += lanes) {
      const int64_t first = (int64_t{row} * packs + pack) * kCount;
      const Pack<Element> gradient = first + kCount <= count ? whole_pack(first) : tail(first);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] += gradient[i];
    }
    return sum;
  }

  POSEIDON_DEVICE Pack<Element> whole_pack(int64_t first) const {
    Pack<Element> gradient = load_pack(in[0] + first);
    for (int k = 1; k < contributions; ++k) {
      const Pack<Element> other = load_pack(in[k] + first);
#pragma unroll
      for (int i = 0; i < kCount; ++i) gradient[i] += other[i];
    }
    if (output != nullptr) {
      const Pack<Element> y = load_pack(output + first);
#pragma unroll
      for (int i = 0; i < kCount; ++i) gradient[i] = y[i] > 0 ? gradient[i] : gradient[i] * slope;
    }
    if (combined != nullptr) store_pack(combined + first, gradient);
    return gradient;
  }

  /// Returns the gradients of the last pack. They are zero after the last element.
  POSEIDON_DEVICE Pack<Element> tail(int64_t first) const {
    Pack<Element> gradient{};
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (first + i < count) gradient[i] = one(first + i);
    return gradient;
  }

  POSEIDON_DEVICE float one(int64_t i) const {
    float gradient = in[0][i];
    for (int k = 1; k < contributions; ++k) gradient += static_cast<float>(in[k][i]);
    if (output != nullptr && !(output[i] > 0)) gradient *= slope;
    if (combined != nullptr) combined[i] = gradient;
    return gradient;
  }

  /// Adds the sums of all lanes. Lane 0 receives the result.
  POSEIDON_DEVICE void add_lanes(const Thread& thread, uint32_t lane, Pack<Element>& sum,
                                 Shared& shared) const {
    const uint32_t t = thread.thread();
#pragma unroll
    for (int i = 0; i < kCount; ++i) shared.sums[i][t] = sum[i];
    for (uint32_t step = kThreads / 2; step > 0; step /= 2) {
      if (step >= lanes) continue;
      thread.synchronize();
      if (lane < step && lane + step < lanes)
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
          sum[i] += shared.sums[i][t + step * width];
          shared.sums[i][t] = sum[i];
        }
    }
  }

  POSEIDON_DEVICE void store_partial(uint32_t block, uint32_t pack,
                                     const Pack<Element>& sum) const {
    float* to = partial + (int64_t{block} * packs + pack) * kCount;
#pragma unroll
    for (int k = 0; k < kCount; k += kPack<float>) {
      Pack<float> some;
#pragma unroll
      for (int i = 0; i < kPack<float>; ++i) some[i] = sum[k + i];
      store_pack(to + k, some);
    }
  }
};

/// out[c] = the sum of in[r][c] over r. A block has few columns and many threads for each column.
/// So a thread adds few values, and waits for memory only a few times.
struct BiasSumKernel {
  static constexpr const char* kName = "sum of a bias's gradients";
  static constexpr uint32_t kThreads = 256;
  static constexpr uint32_t kColumns = 8;  // 32 bytes, the size of the smallest memory transaction
  static constexpr uint32_t kLanes = kThreads / kColumns;
  struct Shared {
    float sums[kThreads];
  };

  const float* in;
  float* out;
  uint32_t rows, columns;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<float>(int64_t{rows} * columns));
    visitor.writes(out, bytes_of_elements<float>(columns));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const uint32_t t = thread.thread();
    const uint32_t column = thread.block() * kColumns + t % kColumns;
    float sum = 0;
    if (column < columns)
#pragma unroll 4
      for (uint32_t row = t / kColumns; row < rows; row += kLanes)
        sum += in[int64_t{row} * columns + column];
    shared.sums[t] = sum;
    for (uint32_t step = kThreads / 2; step >= kColumns; step /= 2) {
      thread.synchronize();
      if (t < step) shared.sums[t] = sum += shared.sums[t + step];
    }
    if (t < kColumns && column < columns) out[column] = sum;
  }
};

}  // namespace

void add_bias(CudaDevice& device, const Tensor& y, const float* bias, std::optional<float> relu) {
  if (bias == nullptr) {
    if (relu) map(device, y, y, ReluAfterBias{*relu});
    return;
  }
  with_element_of(y.format.type, [&](auto element) {
    using Element = decltype(element);
    const int64_t channels = y.shape.channels();
    const int64_t repeats = kPack<Element> / std::gcd(channels, int64_t{kPack<Element>});
    const AddBiasKernel<Element> kernel{
        .y = y.as<Element>(),
        .bias = bias,
        .count = count_of(y),
        .channels = static_cast<uint32_t>(channels),
        .packs = static_cast<uint32_t>(channels * repeats / kPack<Element>),
        .relu = {relu.value_or(1.0F)}};
    device.launch_for(blocks_for(kernel.count, kPack<Element>), kernel);
  });
}

// ---- gradient

namespace {

constexpr uint32_t kBiasThreads = BiasGradientKernel<float>::kThreads;
/// Limit on blocks: about four for each multiprocessor of a large GPU. More blocks would write more
/// partial sums, which BiasSumKernel must read.
constexpr int64_t kMaxBiasBlocks = 512;
/// Least number of wide rows for each thread, unless the grid has only one block in y.
constexpr int64_t kFewestBiasRows = 4;

}  // namespace

BiasGradient::BiasGradient(CudaDevice& device, int64_t rows, int64_t channels, DataType type)
    : device_(device), type_(type), count_(rows * channels), channels_(channels) {
  const auto pack = static_cast<int64_t>(poseidon::cuda::kPackBytes / bytes_of(type));
  repeats_ = static_cast<uint32_t>(pack / std::gcd(channels, pack));
  packs_ = static_cast<uint32_t>(channels * repeats_ / pack);
  wide_rows_ = blocks_for(rows, repeats_);
  width_ = blocks_for(packs_, blocks_for(packs_, kBiasThreads));
  const int64_t lanes = kBiasThreads / width_;
  const int64_t most = std::max<int64_t>(1, kMaxBiasBlocks / blocks_across());
  const int64_t blocks = std::clamp<int64_t>(wide_rows_ / (lanes * kFewestBiasRows), 1, most);
  rows_of_block_ = blocks_for(wide_rows_, blocks);
}

size_t BiasGradient::scratch_bytes() const {
  return partial_sums() == 1 ? 0 : bytes_of_elements<float>(partial_sums() * channels_);
}

const Tensor& BiasGradient::combine(const Bindings& memory, std::optional<float> relu,
                                    float* sums) const {
  if (sums == nullptr) return combined_gradient(device_, memory, relu);
  std::span<const Tensor> gradients = memory.output_gradients;
  const Tensor& first = gradients[0];
  if (gradients.size() > kContributions) {
    combined_gradient(device_, memory, std::nullopt);
    gradients = gradients.first(1);
  }
  const bool changes = gradients.size() > 1 || relu;
  run({.contributions = gradients,
       .output = relu ? memory.output.data : nullptr,
       .slope = relu.value_or(1.0F),
       .combined = changes ? first.data : nullptr},
      sums, memory.scratch);
  return first;
}

void BiasGradient::run(const Pass& pass, float* sums, std::byte* scratch) const {
  with_element_of(type_, [&](auto element) { launch<decltype(element)>(pass, sums, scratch); });
}

template <class Element>
void BiasGradient::launch(const Pass& pass, float* sums, std::byte* scratch) const {
  float* partial = partial_sums() == 1 ? sums : reinterpret_cast<float*>(scratch);
  BiasGradientKernel<Element> kernel{.in = {},
                                     .contributions = static_cast<int>(pass.contributions.size()),
                                     .output = static_cast<const Element*>(pass.output),
                                     .slope = pass.slope,
                                     .combined = static_cast<Element*>(pass.combined),
                                     .partial = partial,
                                     .count = count_,
                                     .packs = packs_,
                                     .rows = wide_rows_,
                                     .width = width_,
                                     .lanes = kBiasThreads / width_,
                                     .rows_of_block = rows_of_block_,
                                     .blocks_down = blocks_down()};
  for (size_t k = 0; k < pass.contributions.size(); ++k)
    kernel.in[k] = pass.contributions[k].as<Element>();
  device_.launch(kernel, {.blocks = blocks_across(), .blocks_y = blocks_down()});
  if (partial == sums) return;
  const BiasSumKernel fold{.in = partial,
                           .out = sums,
                           .rows = static_cast<uint32_t>(partial_sums()),
                           .columns = static_cast<uint32_t>(channels_)};
  device_.launch_for(channels_ * BiasSumKernel::kLanes, fold);
}

}  // namespace poseidon::layers::cuda
