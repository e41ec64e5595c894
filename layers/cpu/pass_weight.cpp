#include "layers/cpu/pass_weight.h"

#include "layers/cpu/team_loops.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu {

namespace {

using poseidon::cpu::FormatTag;
using poseidon::cpu::kFloat;
constexpr auto kBf16 = dnnl::memory::data_type::bf16;

constexpr int64_t kSide = 16;
using Wide = Vectors<16>;
using Half = Vectors<8>;

/// bf16 instructions read pairs of neighbors along the summed axis, so pairs of rows are
/// interleaved. A square of 16 rows of inputs, with 16 outputs each, becomes 8 rows of pairs of
/// inputs. oneDNN's reorder takes four times as long.
void pair_inputs(const float* kept, void* to) {
  auto* read = static_cast<uint32_t*>(to);
  for (int64_t row = 0; row < kSide; row += 2) {
    const auto low = rounded_to_bf16(load<Wide::Float>(kept + row * kSide));
    const auto high = rounded_to_bf16(load<Wide::Float>(kept + (row + 1) * kSide));
    store(read + row / 2 * kSide, low | high << 16);
  }
}

/// Converts a square of 16 rows of inputs, with 16 outputs each, to bf16. The result has 8 rows of
/// pairs of outputs, with 16 inputs each. The two outputs of a pair are already adjacent, so this
/// function transposes a matrix whose elements are pairs.
void pair_outputs(const float* kept, void* to) {
  auto* read = static_cast<uint32_t*>(to);
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

/// Transposes a square of inputs and outputs.
template <int kRows>
void turn(const float* kept, void* to) {
  using V = typename Vectors<kRows>::Float;
  V rows[kRows];
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) rows[row] = load<V>(kept + row * kRows);
  transpose_square(rows);
  auto* read = static_cast<float*>(to);
#pragma GCC unroll 16
  for (int row = 0; row < kRows; ++row) store(read + row * kRows, rows[row]);
}

}  // namespace

std::optional<PassWeight::OwnCopy> PassWeight::own_copy(const Dims& shape, const MemoryDesc& kept,
                                                        const MemoryDesc& read) {
  const bool groups = shape.size() == 5;
  const size_t first = groups ? 1 : 0;
  if (shape.size() < 4) return std::nullopt;
  const auto is = [&](const MemoryDesc& order, auto type, FormatTag one, FormatTag grouped) {
    return order == MemoryDesc(shape, type, groups ? grouped : one);
  };
  const auto has_squares = [&](int64_t side, FormatTag one, FormatTag grouped) {
    return shape[first] % side == 0 && shape[first + 1] % side == 0 &&
           is(kept, kFloat, one, grouped);
  };
  if (has_squares(16, FormatTag::OIhw16i16o, FormatTag::gOIhw16i16o)) {
    if (is(read, kFloat, FormatTag::OIhw16o16i, FormatTag::gOIhw16o16i)) return {{16, 4, turn<16>}};
    if (is(read, kBf16, FormatTag::OIhw8i16o2i, FormatTag::gOIhw8i16o2i))
      return {{16, 2, pair_inputs}};
    if (is(read, kBf16, FormatTag::OIhw8o16i2o, FormatTag::gOIhw8o16i2o))
      return {{16, 2, pair_outputs}};
  }
  if (has_squares(8, FormatTag::OIhw8i8o, FormatTag::gOIhw8i8o) &&
      is(read, kFloat, FormatTag::OIhw8o8i, FormatTag::gOIhw8o8i))
    return {{8, 4, turn<8>}};
  return std::nullopt;
}

PassWeight::PassWeight(CpuDevice& device, const Dims& shape, const MemoryDesc& kept,
                       const MemoryDesc& read)
    : read_(read),
      is_kept_(kept == read),
      own_copy_(own_copy(shape, kept, read)),
      copy_(device, kept, read) {}

void* PassWeight::get(CpuDevice& device, float* kept, Scratch& scratch) const {
  if (is_kept_) return kept;
  void* copy = scratch.allocate(read_.get_size());
  if (!own_copy_) {
    copy_.run(device, kept, copy);
    return copy;
  }
  const int64_t square = own_copy_->side * own_copy_->side;
  const int64_t bytes = square * own_copy_->bytes;
  const int64_t squares = static_cast<int64_t>(read_.get_size()) / bytes;
  auto* to = static_cast<std::byte*>(copy);
  for_each_item(device.team(), squares, square,
                [&](int64_t i) { own_copy_->copy(kept + i * square, to + i * bytes); });
  return copy;
}

}  // namespace poseidon::layers::cpu
