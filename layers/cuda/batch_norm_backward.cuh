#pragma once

#include "layers/cuda/kernel_name.cuh"
#include "layers/cuda/row_tiling.cuh"

/// The three kernels of batch norm's backward pass: the sums over bands of rows (RowTiling), the
/// merging of these sums, and the input gradient. Below, x is the input, `mean` is the mean of a
/// channel rounded to fp32, and g is the gradient of the output times the derivative of a fused
/// relu. The name of a kernel with the template parameter `Of` begins with Of::kType, the layer
/// type: batch_norm or mvn.
namespace poseidon::layers::cuda {

/// The derivative of a fused relu.
struct ReluMask {
  /// The mask from the forward pass: one byte for each group of kEach outputs. Bit i is set if
  /// output i of the group is above zero. Null: no relu.
  const uint8_t* above = nullptr;
  float slope = 1;  ///< negative slope of the relu

  void visit(MemoryVisitor& visitor, int64_t count, int each) const {
    if (above != nullptr) visitor.reads(above, static_cast<size_t>(count / each));
  }

  /// Loads the bits of the group that begins at element `at`.
  template <int kEach>
  POSEIDON_DEVICE uint32_t load(int64_t at) const {
    return above == nullptr ? ~0U : above[at / kEach];
  }
  template <int kEach>
  POSEIDON_DEVICE void apply(uint32_t bits, Channels<kEach>& g) const {
#pragma unroll
    for (int i = 0; i < kEach; ++i) g[i] = (bits >> i & 1) != 0 ? g[i] : g[i] * slope;
  }
};

/// Computes g from kSummed tensors, whose sum is the gradient of the output. Without a relu, g is
/// this sum.
template <class Element, int kSummed>
struct IncomingGradient {
  const Element* summed[kSummed];
  ReluMask relu;

  void visit(MemoryVisitor& visitor, int64_t count, int each) const {
    for (const Element* gradient : summed)
      visitor.reads(gradient, bytes_of_elements<Element>(count));
    relu.visit(visitor, count, each);
  }

  /// Loads x and g for kEach channels of kRows rows. The first row begins at element `at`. The rows
  /// are `stride` elements apart. All loads precede all arithmetic, so a thread waits for memory
  /// only once.
  template <int kRows, int kEach>
  POSEIDON_DEVICE void load(const Element* input, int64_t at, int64_t stride,
                            Channels<kEach> (&x)[kRows], Channels<kEach> (&g)[kRows]) const {
    uint32_t above[kRows];
    Channels<kEach> parts[kSummed][kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) x[k] = load_channels<kEach>(input + at + k * stride);
#pragma unroll
    for (int part = 0; part < kSummed; ++part)
#pragma unroll
      for (int k = 0; k < kRows; ++k)
        parts[part][k] = load_channels<kEach>(summed[part] + at + k * stride);
#pragma unroll
    for (int k = 0; k < kRows; ++k) above[k] = relu.load<kEach>(at + k * stride);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      g[k] = parts[0][k];
#pragma unroll
      for (int part = 1; part < kSummed; ++part)
#pragma unroll
        for (int i = 0; i < kEach; ++i) g[k][i] += parts[part][k][i];
      relu.apply(above[k], g[k]);
    }
  }
};

/// Calls use(std::integral_constant<int, count>()). `count` is 1 to kContributions.
template <class Use>
void with_summed(size_t count, const Use& use) {
  static_assert(kContributions == 4);
  switch (count) {
    case 1: return use(std::integral_constant<int, 1>());
    case 2: return use(std::integral_constant<int, 2>());
    case 3: return use(std::integral_constant<int, 3>());
    default: return use(std::integral_constant<int, 4>());
  }
}

/// The sums of g and of g * (x - mean) over the rows of one band, for one channel.
struct alignas(16) BandGradients {
  double gradient, gradient_times_centered;
};

/// of_bands[matrix][channel][band] = sums of g and of g * (x - mean). Also writes g, if requested.
template <class Element, int kEach, int kSummed, class Of>
struct BatchNormGradientSumsKernel {
  static constexpr auto kLetters = kernel_name(Of::kType, " gradient sums");
  static constexpr const char* kName = kLetters.data();
  static constexpr uint32_t kThreads = RowTiling::kThreads;
  static constexpr int kBatch = kEach > 4 ? 1 : 2;
  struct Shared {
    GroupValues<kEach> gradients, products;
  };

  MatrixTiling tiling;
  IncomingGradient<Element, kSummed> gradient;
  const Element* input;
  const float* mean;
  Element* written;  ///< receives g; null: not requested; may be a tensor of `gradient`
  BandGradients* of_bands;

  void visit(MemoryVisitor& visitor) const {
    const size_t bytes = bytes_of_elements<Element>(tiling.count());
    gradient.visit(visitor, tiling.count(), kEach);
    visitor.reads(input, bytes);
    visitor.reads(mean, bytes_of_elements<float>(tiling.channels_of_all()));
    if (written != nullptr) visitor.writes(written, bytes);
    visitor.writes(of_bands, bytes_of_elements<BandGradients>(tiling.values_of_bands()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const RowSpan span = tiling.span(thread);
    Channels<kEach> means{}, gradients{}, products{};
    if (span.count > 0) means = load_channels<kEach>(mean + tiling.channel_of_all(thread, span));
    span.for_batches<kBatch>([&](auto rows, int64_t at) {
      Channels<kEach> x[rows], g[rows];
      gradient.load(input, at, span.stride, x, g);
#pragma unroll
      for (int k = 0; k < rows; ++k) {
        if (written != nullptr) store_channels<kEach>(written + at + k * span.stride, g[k]);
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          gradients[i] += g[k][i];
          products[i] += g[k][i] * (x[k][i] - means[i]);
        }
      }
    });
    shared.gradients.put_sums(thread, tiling.of_one.across, gradients);
    shared.products.put_sums(thread, tiling.of_one.across, products);
    thread.synchronize();
    if (thread.thread() < tiling.of_one.channels_of_group()) merge_warps(thread, shared);
  }

  POSEIDON_DEVICE void merge_warps(const Thread& thread, const Shared& shared) const {
    const uint32_t j = thread.thread();
    const uint32_t channel = thread.block_y() * tiling.of_one.channels_of_group() + j;
    if (channel >= tiling.of_one.channels) return;
    BandGradients sums{0, 0};
    for (uint32_t warp = 0; warp < RowTiling::kWarps; ++warp) {
      sums.gradient += shared.gradients.of_warp[warp][j];
      sums.gradient_times_centered += shared.products.of_warp[warp][j];
    }
    of_bands[tiling.values_at(tiling.matrix(thread), channel) + tiling.band(thread)] = sums;
  }
};

/// Coefficients of each channel. The input gradient is dx = of_gradient * g + of_centered * (x -
/// mean) + term.
struct GradientCoefficients {
  float *of_gradient, *of_centered, *term;
};

/// Merges the sums of the bands, with one warp for each channel. Computes the gradients of scale
/// and shift, and the coefficients of the input gradient. If `own_statistics` is true, mean and
/// variance are those of the input, so they depend on the input. Otherwise they are the running
/// statistics, which are constants.
struct BatchNormParameterGradientsKernel {
  static constexpr const char* kName = "batch_norm parameter gradients";
  static constexpr uint32_t kThreads = ChannelWarp::kThreads;
  using Shared = NoSharedMemory;

  RowTiling tiling;
  const BandGradients* of_bands;
  const float *scale, *mean_rest, *inverse_deviation;
  float *scale_gradient, *shift_gradient;
  GradientCoefficients coefficients;
  bool own_statistics;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(of_bands,
                  bytes_of_elements<BandGradients>(int64_t{tiling.channels} * tiling.bands));
    for (const float* read : {scale, mean_rest, inverse_deviation})
      visitor.reads(read, bytes_of_elements<float>(tiling.channels));
    for (float* out : {scale_gradient, shift_gradient, coefficients.of_gradient,
                       coefficients.of_centered, coefficients.term})
      visitor.writes(out, bytes_of_elements<float>(tiling.channels));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    const uint32_t channel = ChannelWarp::channel(thread), bands = tiling.bands;
    if (channel >= tiling.channels) return;  // the whole warp returns
    const BandGradients* sums = of_bands + int64_t{channel} * bands;
    double gradient = 0, product = 0;
    for (uint32_t band = thread.lane(); band < bands; band += kWarp) {
      gradient += sums[band].gradient;
      product += sums[band].gradient_times_centered;
    }
    gradient = reduce_warp(thread, gradient, Sum{});
    product = reduce_warp(thread, product, Sum{});
    if (thread.lane() == 0) write(channel, gradient, product);
  }

  POSEIDON_DEVICE void write(uint32_t channel, double gradient, double product) const {
    const double rest = mean_rest[channel], inverse = inverse_deviation[channel];
    product -= gradient * rest;
    scale_gradient[channel] = static_cast<float>(product * inverse);
    shift_gradient[channel] = static_cast<float>(gradient);
    const double factor = static_cast<double>(scale[channel]) * inverse, count = tiling.rows;
    coefficients.of_gradient[channel] = static_cast<float>(factor);
    if (!own_statistics) gradient = product = 0;  // mean and variance are constants
    const double slope = -factor * inverse * inverse * product / count;
    coefficients.of_centered[channel] = static_cast<float>(slope);
    coefficients.term[channel] = static_cast<float>(-factor * gradient / count - slope * rest);
  }
};

/// target = dx, computed with GradientCoefficients.
template <class Element, int kEach, class Of>
struct BatchNormInputGradientKernel {
  static constexpr auto kLetters = kernel_name(Of::kType, " input gradient");
  static constexpr const char* kName = kLetters.data();
  static constexpr uint32_t kThreads = RowTiling::kThreads;
  static constexpr int kBatch = kEach > 4 ? 1 : 2;

  MatrixTiling tiling;
  IncomingGradient<Element, 1> gradient;
  const Element* input;
  const float* mean;
  GradientCoefficients coefficients;
  Element* target;  ///< may be the memory of `gradient`

  void visit(MemoryVisitor& visitor) const {
    const size_t bytes = bytes_of_elements<Element>(tiling.count());
    gradient.visit(visitor, tiling.count(), kEach);
    visitor.reads(input, bytes);
    for (const float* read : {mean, static_cast<const float*>(coefficients.of_gradient),
                              static_cast<const float*>(coefficients.of_centered),
                              static_cast<const float*>(coefficients.term)})
      visitor.reads(read, bytes_of_elements<float>(tiling.channels_of_all()));
    visitor.writes(target, bytes);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const RowSpan span = tiling.span(thread);
    if (span.count == 0) return;
    const int64_t channel = tiling.channel_of_all(thread, span);
    const auto means = load_channels<kEach>(mean + channel);
    const auto of_gradient = load_channels<kEach>(coefficients.of_gradient + channel);
    const auto of_centered = load_channels<kEach>(coefficients.of_centered + channel);
    const auto term = load_channels<kEach>(coefficients.term + channel);
    span.for_batches<kBatch>([&](auto rows, int64_t at) {
      Channels<kEach> x[rows], g[rows];
      gradient.load(input, at, span.stride, x, g);
#pragma unroll
      for (int k = 0; k < rows; ++k) {
#pragma unroll
        for (int i = 0; i < kEach; ++i)
          x[k][i] = of_gradient[i] * g[k][i] + of_centered[i] * (x[k][i] - means[i]) + term[i];
        store_channels<kEach>(target + at + k * span.stride, x[k]);
      }
    });
  }
};

}  // namespace poseidon::layers::cuda
