#include "layers/cpu/convolution_pass.h"
#include "layers/cpu/scratch.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace poseidon::layers::cpu {

#ifdef __AVX512F__

namespace {

using namespace poseidon::cpu;

/// Enables the bf16 instructions, which no x86-64 level includes. make_for_activations() first
/// checks that the processor has these instructions.
#define POSEIDON_BF16_PRODUCTS [[gnu::target("avx512f,avx512bw,avx512vl,avx512bf16")]]

constexpr int64_t kSquareOfBlock = kLanesOfBlock * kLanesOfBlock;
/// Pairs of positions that are multiplied at a time. The pairs of two output blocks fit in the
/// first-level cache, and the pairs of all blocks fit in the second-level cache.
constexpr int64_t kPairs = 256;
/// Inputs and output blocks whose sums fit in registers.
constexpr int kRowsOfTile = 8, kBlocksOfTile = 2;

/// A tensor in blocks of 16 channels, as pairs of neighboring positions of each sample. If the
/// number of positions is odd, the last position is paired with zero.
class PairedPositions {
 public:
  explicit PairedPositions(const Shape& shape)
      : channels_(shape.channels()), area_(shape.area()), samples_(shape.samples()) {}

  int64_t blocks() const { return channels_ / kLanesOfBlock; }
  int64_t count() const { return samples_ * pairs_of_sample(); }  ///< pairs of a block of channels

  /// Interleaves the pairs [first, end) of a block. Each pair becomes a row of 16 channels, with
  /// two numbers for each channel.
  POSEIDON_BF16_PRODUCTS void interleave(const Bf16* tensor, int64_t block, int64_t first,
                                         int64_t end, uint32_t* rows) const {
    alignas(64) static constexpr std::array<uint16_t, 32> kOrder{
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i order = _mm512_load_si512(kOrder.data());
    for (int64_t pair = first; pair < end; ++pair, rows += kLanesOfBlock) {
      const int64_t sample = pair / pairs_of_sample(), position = pair % pairs_of_sample() * 2;
      const Bf16* from = tensor + ((sample * blocks() + block) * area_ + position) * kLanesOfBlock;
      const __mmask32 real = position + 1 < area_ ? 0xFFFFFFFFU : 0xFFFFU;
      const __m512i both = _mm512_maskz_loadu_epi16(real, from);
      _mm512_storeu_si512(rows, _mm512_permutexvar_epi16(order, both));
    }
  }

 private:
  int64_t pairs_of_sample() const { return (area_ + 1) / 2; }

  int64_t channels_, area_, samples_;
};

/// weight (+)= inputs^T gradients over some pairs, for 8 inputs of a block and kBlocks output
/// blocks. `next_gradients` and `next_weight` are the distances from one output block to the next.
template <int kBlocks>
POSEIDON_BF16_PRODUCTS void multiply_tile(const uint32_t* inputs, const uint32_t* gradients,
                                          int64_t next_gradients, int64_t pairs, bool add,
                                          float* weight, int64_t next_weight) {
  __m512 sums[kRowsOfTile][kBlocks];
#pragma GCC unroll 8
  for (int r = 0; r < kRowsOfTile; ++r)
    for (int b = 0; b < kBlocks; ++b)
      sums[r][b] =
          add ? _mm512_loadu_ps(weight + b * next_weight + r * kLanesOfBlock) : _mm512_setzero_ps();
  for (int64_t k = 0; k < pairs; ++k, inputs += kLanesOfBlock, gradients += kLanesOfBlock) {
    __m512i right[kBlocks];
    for (int b = 0; b < kBlocks; ++b) right[b] = _mm512_loadu_si512(gradients + b * next_gradients);
#pragma GCC unroll 8
    for (int r = 0; r < kRowsOfTile; ++r) {
      __m512i left = _mm512_set1_epi32(static_cast<int>(inputs[r]));
#ifdef __clang__
      asm("" : "+v"(left));  // clang 16 crashes if it merges this broadcast into the product
#endif
      for (int b = 0; b < kBlocks; ++b)
        sums[r][b] = _mm512_dpbf16_ps(sums[r][b], (__m512bh)left, (__m512bh)right[b]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRowsOfTile; ++r)
    for (int b = 0; b < kBlocks; ++b)
      _mm512_storeu_ps(weight + b * next_weight + r * kLanesOfBlock, sums[r][b]);
}

/// The weight's gradient of 1 x 1 kernels in bf16: one product of two matrices. Poseidon has its
/// own code for this pass, because oneDNN's code reaches only half to three quarters of the peak
/// rate of the bf16 instructions. oneDNN's code for the other passes nearly reaches this peak. The
/// bits of the gradient do not depend on the number of threads.
class PointwiseBackwardWeights final : public ConvolutionPass {
 public:
  explicit PointwiseBackwardWeights(const ConvolutionParts& parts)
      : team_(parts.device.team()),
        inputs_(parts.convolution.input),
        outputs_(parts.convolution.output),
        bias_(parts.convolution.bias) {}

  size_t scratch_bytes() const override {
    return static_cast<size_t>((inputs_.blocks() + outputs_.blocks()) * kRoom) * sizeof(uint32_t);
  }
  std::string implementation() const override { return "Poseidon 1 x 1"; }

  void run(const Bindings& memory, const Tensor& gradient) override {
    auto* inputs = reinterpret_cast<uint32_t*>(memory.scratch);
    uint32_t* gradients = inputs + inputs_.blocks() * kRoom;
    float* weight = memory.parameters[0].gradient;
    for (int64_t first = 0; first < inputs_.count(); first += kPairs) {
      const int64_t end = std::min(first + kPairs, inputs_.count());
      for_each_item(team_, inputs_.blocks() + outputs_.blocks(), kRoom, [&](int64_t i) {
        const int64_t output = i - inputs_.blocks();
        if (output < 0)
          inputs_.interleave(memory.inputs[0].as<Bf16>(), i, first, end, inputs + i * kRoom);
        else
          outputs_.interleave(gradient.as<Bf16>(), output, first, end, gradients + output * kRoom);
      });
      const int64_t tiles = (outputs_.blocks() + kBlocksOfTile - 1) / kBlocksOfTile;
      for_each_pair(
          team_, tiles, inputs_.blocks(), kElementsOfTask / 2, [&](int64_t tile, int64_t input) {
            const int64_t output = tile * kBlocksOfTile;
            multiply(inputs + input * kRoom, gradients + output * kRoom, end - first, first > 0,
                     output, weight + (output * inputs_.blocks() + input) * kSquareOfBlock);
          });
    }
    if (bias_) sum_bias(gradient, memory.parameters[1].gradient);
  }

 private:
  static constexpr int64_t kRoom = kPairs * kLanesOfBlock;  ///< 32-bit words of a block's pairs

  /// Multiplies all inputs of a block by up to two output blocks, from `output` on.
  void multiply(const uint32_t* inputs, const uint32_t* gradients, int64_t pairs, bool add,
                int64_t output, float* weight) const {
    const int64_t next_weight = inputs_.blocks() * kSquareOfBlock;
    const auto multiply_rows = output + 1 < outputs_.blocks() ? multiply_tile<2> : multiply_tile<1>;
    for (int64_t row = 0; row < kLanesOfBlock; row += kRowsOfTile)
      multiply_rows(inputs + row, gradients, kRoom, pairs, add, weight + row * kLanesOfBlock,
                    next_weight);
  }

  void sum_bias(const Tensor& gradient, float* bias) const {
    using Float = Vectors<kLanesOfBlock>::Float;
    const Blocking b = gradient.blocking();
    for_each_item(team_, b.blocks, b.samples * b.area * b.block, [&](int64_t block) {
      Float total{};
      for (int64_t sample = 0; sample < b.samples; ++sample) {
        const Bf16* plane = gradient.as<Bf16>() + b.offset(sample, block * b.block, 0);
        Float sum{};
        for (int64_t i = 0; i < b.area; ++i) sum += load<Float>(plane + i * b.block);
        total += sum;
      }
      store(bias + block * b.block, total);
    });
  }

  ThreadTeam& team_;
  PairedPositions inputs_, outputs_;
  bool bias_;
};

}  // namespace

bool pointwise_is_legal(const ConvolutionParts& parts) {
  constexpr std::array<int64_t, 2> kOne{1, 1};
  const Convolution& c = parts.convolution;
  const ConvolutionFormats& formats = parts.formats;
  return formats.type == DataType::kBf16 && formats.in == Layout::kBlocked16 &&
         formats.out == Layout::kBlocked16 && c.kernel == kOne && c.stride == kOne &&
         c.padding == Sides{} && c.groups == 1 && c.input.channels() % kLanesOfBlock == 0 &&
         c.outputs % kLanesOfBlock == 0 &&
         parts.kept_weight ==
             MemoryDesc(parts.onednn.weight_shape(), kFloat, FormatTag::OIhw16i16o);
}

std::unique_ptr<ConvolutionPass> make_pointwise_backward_weights(const ConvolutionParts& parts) {
  return std::make_unique<PointwiseBackwardWeights>(parts);
}

#else

bool pointwise_is_legal(const ConvolutionParts&) { return false; }
std::unique_ptr<ConvolutionPass> make_pointwise_backward_weights(const ConvolutionParts&) {
  return nullptr;
}

#endif

}  // namespace poseidon::layers::cpu
