#include "layers/cpu/pass_weight.h"

#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu {

namespace {

using poseidon::cpu::FormatTag;
using poseidon::cpu::kFloat;
constexpr auto kBf16 = dnnl::memory::data_type::bf16;

constexpr int64_t kSide = 16, kSquare = kSide * kSide;
using Wide = Vectors<16>;
using Half = Vectors<8>;

/// bf16 instructions read pairs of neighbors along the summed axis, so pairs of rows are
/// interleaved. A square of 16 rows of inputs, with 16 outputs each, becomes 8 rows of pairs of
/// inputs. oneDNN's reorder takes four times as long.
void pair_inputs(const float* kept, uint32_t* read) {
  for (int64_t row = 0; row < kSide; row += 2) {
    const auto low = rounded_to_bf16(load<Wide::Float>(kept + row * kSide));
    const auto high = rounded_to_bf16(load<Wide::Float>(kept + (row + 1) * kSide));
    store(read + row / 2 * kSide, low | high << 16);
  }
}

/// Converts a square of 16 rows of inputs, with 16 outputs each, to bf16. The result has 8 rows of
/// pairs of outputs, with 16 inputs each. The two outputs of a pair are already adjacent, so this
/// function transposes a matrix whose elements are pairs.
void pair_outputs(const float* kept, uint32_t* read) {
  for (int64_t half = 0; half < 2; ++half) {
    Half::Int rows[8];
    for (int64_t row = 0; row < 8; ++row) {
      const auto outputs = rounded_to_bf16(load<Wide::Float>(kept + (half * 8 + row) * kSide));
      const auto halves = __builtin_convertvector(outputs, Wide::Place);
      rows[row] = std::bit_cast<Half::Int>(halves);
    }
    transpose_square(rows);
    for (int64_t row = 0; row < 8; ++row) store(read + row * kSide + half * 8, rows[row]);
  }
}

}  // namespace

PassWeight::CopySquare PassWeight::own_copy(const Dims& shape, const MemoryDesc& kept,
                                            const MemoryDesc& read) {
  const bool groups = shape.size() == 5;
  const size_t first = groups ? 1 : 0;
  if (shape.size() < 4 || shape[first] % kSide != 0 || shape[first + 1] % kSide != 0)
    return nullptr;
  const auto is = [&](const MemoryDesc& order, auto type, FormatTag one, FormatTag grouped) {
    return order == MemoryDesc(shape, type, groups ? grouped : one);
  };
  if (!is(kept, kFloat, FormatTag::OIhw16i16o, FormatTag::gOIhw16i16o)) return nullptr;
  if (is(read, kBf16, FormatTag::OIhw8i16o2i, FormatTag::gOIhw8i16o2i)) return pair_inputs;
  if (is(read, kBf16, FormatTag::OIhw8o16i2o, FormatTag::gOIhw8o16i2o)) return pair_outputs;
  return nullptr;
}

PassWeight::PassWeight(CpuDevice& device, const Dims& shape, const MemoryDesc& kept,
                       const MemoryDesc& read)
    : read_(read),
      is_kept_(kept == read),
      copy_square_(own_copy(shape, kept, read)),
      copy_(device, kept, read) {}

void* PassWeight::get(CpuDevice& device, float* kept, Scratch& scratch) const {
  if (is_kept_) return kept;
  void* copy = scratch.allocate(read_.get_size());
  if (copy_square_ == nullptr) {
    copy_.run(device, kept, copy);
    return copy;
  }
  auto* pairs = static_cast<uint32_t*>(copy);
  const auto squares = static_cast<int64_t>(read_.get_size() / sizeof(Bf16)) / kSquare;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < squares; ++i) copy_square_(kept + i * kSquare, pairs + i * kSquare / 2);
  return copy;
}

}  // namespace poseidon::layers::cpu
