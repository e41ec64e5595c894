#pragma once

#include "layers/cuda/kernel_name.cuh"
#include "layers/cuda/row_tiling.cuh"

/// The kernels of layers with factors, summands or both (layers/channel_rules.h).
namespace poseidon::layers::cuda {

/// The factors or the summands of a layer: one for each channel, or one for all channels. Each
/// matrix of a MatrixTiling has separate values, or all matrices have the same values.
struct ChannelValues {
  const float* values = nullptr;  ///< null: no factors or no summands
  bool one = false;               ///< one value for all channels
  uint32_t of_matrix = 0;         ///< values of each matrix; 0: all matrices have the same values
  uint32_t count = 0;             ///< total number of values

  void visit(MemoryVisitor& visitor) const {
    if (values != nullptr) visitor.reads(values, bytes_of_elements<float>(count));
  }
  template <int kEach>
  POSEIDON_DEVICE Channels<kEach> load(uint32_t matrix, uint32_t channel) const {
    Channels<kEach> loaded{};
    if (values == nullptr) return loaded;
    const float* from = values + int64_t{matrix} * of_matrix;
    if (!one) return load_channels<kEach>(from + channel);
#pragma unroll
    for (int i = 0; i < kEach; ++i) loaded[i] = from[0];
    return loaded;
  }
};

/// For each element, out = Rule::value(in, factor, summand) with its channel's factor and summand.
/// `out` may be `in`.
template <class Element, int kEach, class Rule>
struct ChannelForwardKernel {
  static constexpr auto kLetters = kernel_name(Rule::kType, " forward");
  static constexpr const char* kName = kLetters.data();
  static constexpr uint32_t kThreads = RowTiling::kThreads;
  static constexpr int kBatch = kEach > 4 ? 2 : 4;

  MatrixTiling tiling;
  const Element* in;
  Element* out;
  ChannelValues factors, summands;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<Element>(tiling.count()));
    factors.visit(visitor);
    summands.visit(visitor);
    visitor.writes(out, bytes_of_elements<Element>(tiling.count()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const RowSpan span = tiling.span(thread);
    if (span.count == 0) return;
    const auto factor = factors.load<kEach>(tiling.matrix(thread), span.channel);
    const auto summand = summands.load<kEach>(0, span.channel);
    span.for_batches<kBatch>([&](auto rows, int64_t at) {
      Channels<kEach> x[rows];
#pragma unroll
      for (int k = 0; k < rows; ++k) x[k] = load_channels<kEach>(in + at + k * span.stride);
#pragma unroll
      for (int k = 0; k < rows; ++k) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) x[k][i] = Rule::value(x[k][i], factor[i], summand[i]);
        store_channels<kEach>(out + at + k * span.stride, x[k]);
      }
    });
  }
};

/// Gradients of a channel's factor and summand, summed over the rows of one band.
struct alignas(16) ChannelSums {
  double factor, summand;
};

/// Writes of_bands[matrix][channel][band] and, if requested, the gradient of the input. The
/// output's gradient is the sum of in[k] in order of k.
template <class Element, int kEach, class Rule>
struct ChannelBackwardKernel {
  static constexpr auto kLetters = kernel_name(Rule::kType, " backward");
  static constexpr const char* kName = kLetters.data();
  static constexpr uint32_t kThreads = RowTiling::kThreads;
  static constexpr int kBatch = kEach > 4 ? 1 : 2;
  struct Shared {
    GroupValues<kEach> factors, summands;
  };

  MatrixTiling tiling;
  const Element* in[kContributions];
  int contributions;
  const Element* input;  ///< null: the rule does not read it
  Element* target;       ///< gradient of the input; null: not requested; may be one of in[k]
  ChannelValues factors;
  ChannelSums* of_bands;

  void visit(MemoryVisitor& visitor) const {
    const size_t bytes = bytes_of_elements<Element>(tiling.count());
    for (int k = 0; k < contributions; ++k) visitor.reads(in[k], bytes);
    if (input != nullptr) visitor.reads(input, bytes);
    factors.visit(visitor);
    if (target != nullptr) visitor.writes(target, bytes);
    visitor.writes(of_bands, bytes_of_elements<ChannelSums>(tiling.values_of_bands()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const RowSpan span = tiling.span(thread);
    Channels<kEach> factor{}, of_factor{}, of_summand{};
    if (span.count > 0) factor = factors.load<kEach>(tiling.matrix(thread), span.channel);
    span.for_batches<kBatch>([&](auto rows, int64_t at) {
      Channels<kEach> x[rows]{}, g[rows]{};
      load<rows>(at, span.stride, x, g);
#pragma unroll
      for (int k = 0; k < rows; ++k) {
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          of_factor[i] += Rule::factor_gradient(g[k][i], x[k][i]);
          of_summand[i] += g[k][i];
          g[k][i] = Rule::gradient(g[k][i], x[k][i], factor[i]);
        }
        if (target != nullptr) store_channels<kEach>(target + at + k * span.stride, g[k]);
      }
    });
    const uint32_t across = tiling.of_one.across;
    shared.factors.put_sums(thread, across, of_factor);
    shared.summands.put_sums(thread, across, of_summand);
    thread.synchronize();
    if (thread.thread() < tiling.of_one.channels_of_group()) merge_warps(thread, shared);
  }

  template <int kRows>
  POSEIDON_DEVICE void load(int64_t at, int64_t stride, Channels<kEach> (&x)[kRows],
                            Channels<kEach> (&g)[kRows]) const {
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      g[k] = load_channels<kEach>(in[0] + at + k * stride);
      if (input != nullptr) x[k] = load_channels<kEach>(input + at + k * stride);
    }
#pragma unroll 1
    for (int c = 1; c < contributions; ++c) {
#pragma unroll
      for (int k = 0; k < kRows; ++k) {
        const auto other = load_channels<kEach>(in[c] + at + k * stride);
#pragma unroll
        for (int i = 0; i < kEach; ++i) g[k][i] += other[i];
      }
    }
  }

  POSEIDON_DEVICE void merge_warps(const Thread& thread, const Shared& shared) const {
    const uint32_t j = thread.thread();
    const uint32_t channel = thread.block_y() * tiling.of_one.channels_of_group() + j;
    if (channel >= tiling.of_one.channels) return;
    ChannelSums sums{0, 0};
    for (uint32_t warp = 0; warp < RowTiling::kWarps; ++warp) {
      sums.factor += shared.factors.of_warp[warp][j];
      sums.summand += shared.summands.of_warp[warp][j];
    }
    of_bands[tiling.values_at(tiling.matrix(thread), channel) + tiling.band(thread)] = sums;
  }
};

/// out[i] = sum over part and k of in[part][i][k].factor, or of .summand if `of_factor` is false.
template <class Element>
struct ChannelSumsKernel {
  static constexpr const char* kName = "gradient of each channel";
  static constexpr uint32_t kThreads = ChannelWarp::kThreads;
  using Shared = NoSharedMemory;

  const ChannelSums* in;
  bool of_factor;
  uint32_t parts, outputs, run;  ///< lengths of the three dimensions of `in`
  Element* out;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(in, bytes_of_elements<ChannelSums>(int64_t{parts} * outputs * run));
    visitor.writes(out, bytes_of_elements<Element>(outputs));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    const uint32_t output = ChannelWarp::channel(thread);
    if (output >= outputs) return;  // the whole warp returns
    double sum = 0;
    for (uint32_t part = 0; part < parts; ++part) {
      const ChannelSums* from = in + (int64_t{part} * outputs + output) * run;
      for (uint32_t k = thread.lane(); k < run; k += kWarp)
        sum += of_factor ? from[k].factor : from[k].summand;
    }
    sum = reduce_warp(thread, sum, Sum{});
    if (thread.lane() == 0) out[output] = static_cast<float>(sum);
  }
};

}  // namespace poseidon::layers::cuda
