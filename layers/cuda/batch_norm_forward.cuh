#pragma once

#include <cmath>

#include "layers/cuda/kernel_name.cuh"
#include "layers/cuda/row_tiling.cuh"

/// The three kernels of batch norm's forward pass: the moments of bands of rows (RowTiling), the
/// merging of these moments, and the normalization. In testing, BatchNormRecallKernel replaces the
/// first two kernels, and reads the running statistics. The name of a kernel with the template
/// parameter `Of` begins with Of::kType, the layer type: batch_norm or mvn.
namespace poseidon::layers::cuda {

/// The mean, and the sum of squared deviations from the mean, for one channel and one band.
struct alignas(16) BandMoments {
  double mean, squares;
};

/// of_bands[matrix][channel][band] = moments of the input, in one pass. For each channel, the
/// center of a warp is the first value that the warp reads. Each thread sums d = x - center, and
/// d^2. The center is one of the values, so it is usually near the mean. Then one pass is accurate
/// even if the mean is far from zero. The differences d are nearly exact in fp32. The moments of
/// warps and bands are merged in double precision (Chan, Golub and LeVeque 1979).
template <class Element, int kEach, class Of>
struct BatchNormMomentsKernel {
  static constexpr auto kLetters = kernel_name(Of::kType, " moments");
  static constexpr const char* kName = kLetters.data();
  static constexpr uint32_t kThreads = RowTiling::kThreads;
  static constexpr int kBatch = kEach > 4 ? 2 : 4;
  struct Shared {
    GroupValues<kEach> center, distances, squares;
    uint32_t count[RowTiling::kWarps][kWarp];
  };

  MatrixTiling tiling;
  const Element* input;
  BandMoments* of_bands;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(input, bytes_of_elements<Element>(tiling.count()));
    visitor.writes(of_bands, bytes_of_elements<BandMoments>(tiling.values_of_bands()));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared& shared) const {
    const RowSpan span = tiling.span(thread);
    Channels<kEach> center{}, distances{}, squares{};
    if (span.count > 0) center = load_channels<kEach>(input + span.offset);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      center[i] = first_of_warp(thread, center[i], tiling.of_one.across);
    span.for_batches<kBatch>([&](auto rows, int64_t at) {
      Channels<kEach> x[rows];
#pragma unroll
      for (int k = 0; k < rows; ++k) x[k] = load_channels<kEach>(input + at + k * span.stride);
#pragma unroll
      for (int k = 0; k < rows; ++k)
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const float distance = x[k][i] - center[i];
          distances[i] += distance;
          squares[i] += distance * distance;
        }
    });
    shared.center.put(thread, tiling.of_one.across, center);
    shared.distances.put_sums(thread, tiling.of_one.across, distances);
    shared.squares.put_sums(thread, tiling.of_one.across, squares);
    const uint32_t count = reduce_warp(thread, span.count, Sum{}, tiling.of_one.across);
    if (thread.lane() < tiling.of_one.across) shared.count[thread.warp()][thread.lane()] = count;
    thread.synchronize();
    if (thread.thread() < tiling.of_one.channels_of_group()) merge_warps(thread, shared);
  }

  /// Merges the moments of the block's warps, relative to the center of warp 0. This warp always
  /// has rows, so its center is a value of the input.
  POSEIDON_DEVICE void merge_warps(const Thread& thread, const Shared& shared) const {
    const uint32_t j = thread.thread();
    const uint32_t channel = thread.block_y() * tiling.of_one.channels_of_group() + j;
    if (channel >= tiling.of_one.channels) return;
    const double reference = shared.center.of_warp[0][j];
    double total = 0, distances = 0, squares = 0;
    for (uint32_t warp = 0; warp < RowTiling::kWarps; ++warp) {
      const double count = shared.count[warp][j / kEach];
      const double sum = shared.distances.of_warp[warp][j];
      const double shift = count > 0 ? shared.center.of_warp[warp][j] - reference : 0;
      total += count;
      distances += sum + count * shift;
      squares += shared.squares.of_warp[warp][j] + shift * (2 * sum + count * shift);
    }
    const double rest = distances / total;
    of_bands[tiling.values_at(tiling.matrix(thread), channel) + tiling.band(thread)] = {
        reference + rest, squares - distances * rest};
  }
};

/// Arrays with one value for each channel, for the normalization and the backward pass. The exact
/// mean is the sum mean + mean_rest. One float is not enough if the mean is many standard
/// deviations from zero: the rounding error is then a noticeable part of a standard deviation.
struct NormalizedChannels {
  const float *scale, *shift;
  float *mean, *mean_rest, *inverse_deviation;  ///< kept for the backward pass
  float *factor, *term;                         ///< y = (x - mean) * factor + term
  uint32_t channels;
  double epsilon;

  void visit_writing(MemoryVisitor& visitor) const {
    for (const float* read : {scale, shift})
      visitor.reads(read, bytes_of_elements<float>(channels));
    for (float* written : {mean, mean_rest, inverse_deviation, factor, term})
      visitor.writes(written, bytes_of_elements<float>(channels));
  }

  POSEIDON_DEVICE void write(uint32_t channel, double exact_mean, double variance) const {
    const auto rounded = static_cast<float>(exact_mean);
    const auto rest = static_cast<float>(exact_mean - static_cast<double>(rounded));
    const auto inverse = static_cast<float>(1 / ::sqrt(variance + epsilon));
    mean[channel] = rounded;
    mean_rest[channel] = rest;
    inverse_deviation[channel] = inverse;
    factor[channel] = scale[channel] * inverse;
    term[channel] = shift[channel] - rest * (scale[channel] * inverse);
  }
};

/// In training: merges the moments of the bands, with one warp for each channel. Writes the values
/// for the normalization, and the batch's contributions to the running statistics.
struct BatchNormStatisticsKernel {
  static constexpr const char* kName = "batch_norm statistics";
  static constexpr uint32_t kThreads = ChannelWarp::kThreads;
  using Shared = NoSharedMemory;

  RowTiling tiling;
  const BandMoments* of_bands;
  NormalizedChannels normalized;
  float *mean_contribution, *variance_contribution;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(of_bands,
                  bytes_of_elements<BandMoments>(int64_t{tiling.channels} * tiling.bands));
    normalized.visit_writing(visitor);
    visitor.writes(mean_contribution, bytes_of_elements<float>(tiling.channels));
    visitor.writes(variance_contribution, bytes_of_elements<float>(tiling.channels));
  }

  POSEIDON_DEVICE void operator()(const Thread& thread, Shared&) const {
    const uint32_t channel = ChannelWarp::channel(thread), bands = tiling.bands;
    if (channel >= tiling.channels) return;  // the whole warp returns
    const BandMoments* moments = of_bands + int64_t{channel} * bands;
    const double reference = moments[0].mean;
    double distances = 0, squares = 0;
    for (uint32_t band = thread.lane(); band < bands; band += kWarp) {
      const double count = tiling.rows_in(band), distance = moments[band].mean - reference;
      distances += count * distance;
      squares += moments[band].squares + count * distance * distance;
    }
    distances = reduce_warp(thread, distances, Sum{});
    squares = reduce_warp(thread, squares, Sum{});
    if (thread.lane() == 0) write(channel, reference, distances, squares);
  }

  POSEIDON_DEVICE void write(uint32_t channel, double reference, double distances,
                             double squares) const {
    const double count = tiling.rows, rest = distances / count, mean = reference + rest;
    const double deviations = squares - distances * rest;
    normalized.write(channel, mean, deviations / count);
    mean_contribution[channel] = static_cast<float>(mean);
    variance_contribution[channel] = static_cast<float>(deviations / (count > 1 ? count - 1 : 1));
  }
};

/// In testing: computes the values for the normalization from the running statistics.
struct BatchNormRecallKernel {
  static constexpr const char* kName = "batch_norm running statistics";
  static constexpr uint32_t kThreads = 128;

  const float *running_mean, *running_variance;
  NormalizedChannels normalized;

  void visit(MemoryVisitor& visitor) const {
    visitor.reads(running_mean, bytes_of_elements<float>(normalized.channels));
    visitor.reads(running_variance, bytes_of_elements<float>(normalized.channels));
    normalized.visit_writing(visitor);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const uint32_t channel = thread.block() * kThreads + thread.thread();
    if (channel < normalized.channels)
      normalized.write(channel, running_mean[channel], running_variance[channel]);
  }
};

/// output = relu((input - mean) * factor + term + residual). For the backward pass, also writes
/// `above`: one byte for each group of kEach outputs. Bit i is set if output i of the group is
/// above zero. The backward pass reads `above` instead of the output, which has more bytes.
template <class Element, int kEach, class Of>
struct BatchNormNormalizeKernel {
  static constexpr auto kLetters = kernel_name(Of::kType, " normalize");
  static constexpr const char* kName = kLetters.data();
  static constexpr uint32_t kThreads = RowTiling::kThreads;
  static constexpr int kBatch = kEach > 4 ? 2 : 4;

  MatrixTiling tiling;
  const Element* input;
  const Element* residual;  ///< null: no residual
  Element* output;
  uint8_t* above;  ///< receives the bits; null: not requested
  const float *mean, *factor, *term;
  float slope;  ///< negative slope of the relu; 1: no relu

  void visit(MemoryVisitor& visitor) const {
    const size_t bytes = bytes_of_elements<Element>(tiling.count());
    visitor.reads(input, bytes);
    if (residual != nullptr) visitor.reads(residual, bytes);
    for (const float* read : {mean, factor, term})
      visitor.reads(read, bytes_of_elements<float>(tiling.channels_of_all()));
    visitor.writes(output, bytes);
    if (above != nullptr) visitor.writes(above, bytes / sizeof(Element) / kEach);
  }

  POSEIDON_DEVICE void operator()(const Thread& thread) const {
    const RowSpan span = tiling.span(thread);
    if (span.count == 0) return;
    const int64_t channel = tiling.channel_of_all(thread, span);
    const auto means = load_channels<kEach>(mean + channel);
    const auto factors = load_channels<kEach>(factor + channel);
    const auto terms = load_channels<kEach>(term + channel);
    span.for_batches<kBatch>([&](auto rows, int64_t at) {
      Channels<kEach> x[rows], added[rows];
#pragma unroll
      for (int k = 0; k < rows; ++k) {
        x[k] = load_channels<kEach>(input + at + k * span.stride);
        if (residual != nullptr)
          added[k] = load_channels<kEach>(residual + at + k * span.stride);
        else
          added[k] = {};
      }
#pragma unroll
      for (int k = 0; k < rows; ++k) {
        uint32_t bits = 0;
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
          const float y = (x[k][i] - means[i]) * factors[i] + terms[i] + added[k][i];
          bits |= static_cast<uint32_t>(y > 0) << i;
          x[k][i] = y > 0 ? y : y * slope;
        }
        store_channels<kEach>(output + at + k * span.stride, x[k]);
        if (above != nullptr) above[(at + k * span.stride) / kEach] = static_cast<uint8_t>(bits);
      }
    });
  }
};

}  // namespace poseidon::layers::cuda
