#include "layers/cpu/product.h"

#include "layers/cpu/multiply_add.h"
#include "layers/cpu/streaming.h"

namespace poseidon::layers::cpu::product {
namespace {

/// A tile of the result.
struct Rows {
  float* const* rows;    ///< address of each row
  int64_t vector_step;   ///< floats between two vectors of a row
  const float* relu;     ///< negative slope of the relu to apply to the sums; null: no relu
  bool streams = false;  ///< all vectors are aligned, and are stored past the caches
};

/// Computes the first kWidth vectors of all rows of a tile.
template <int kWidth, int64_t kRowStepOfA, int64_t kDepthStepOfA>
void multiply_rows(const float* a, PanelOfB b, int64_t depth, Start start, const Rows& c) {
  // The loops over rows are unrolled, so that the sums stay in registers. The loop over the depth
  // is unrolled because its own instructions take time from the sums on some processors.
  Float sum[kRows][kWidth];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t v = 0; v < kWidth; ++v)
      sum[r][v] = start.memory              ? load<Float>(c.rows[r] + v * c.vector_step)
                  : start.values != nullptr ? load<Float>(start.values + v * kLanes)
                                            : Float{};
#pragma GCC unroll 4
  for (int64_t k = 0; k < depth; ++k, a += kDepthStepOfA, b.data += b.depth_step) {
    Float right[kWidth];
    for (int64_t v = 0; v < kWidth; ++v) right[v] = load<Float>(b.data + v * b.vector_step);
#pragma GCC unroll 16
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t v = 0; v < kWidth; ++v)
        sum[r][v] = multiply_add(a[r * kRowStepOfA], right[v], sum[r][v]);
  }
  const auto store_all = [&](const auto& store_one) {
#pragma GCC unroll 16
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t v = 0; v < kWidth; ++v)
        store_one(c.rows[r] + v * c.vector_step,
                  c.relu == nullptr ? sum[r][v] : leaky_relu(sum[r][v], *c.relu));
  };
  if (c.streams)
    store_all([](float* to, const Float& value) { stream(to, value); });
  else
    store_all([](float* to, const Float& value) { store(to, value); });
}

void multiply_whole(OrderOfA order, const float* a, PanelOfB b, int64_t depth, Start start,
                    int64_t columns, const Rows& c) {
  const auto multiply = [&](auto multiply_width) { multiply_width(a, b, depth, start, c); };
  if (order == OrderOfA::kByDepth)
    columns > kLanes ? multiply(multiply_rows<kVectors, 1, kRows>)
                     : multiply(multiply_rows<1, 1, kRows>);
  else
    columns > kLanes ? multiply(multiply_rows<kVectors, kRowStep, 1>)
                     : multiply(multiply_rows<1, kRowStep, 1>);
}

/// Whether a tile has all kRows rows, and whole vectors in each of them.
bool is_whole(const Tile& c) {
  return c.row_count == kRows && c.columns % kLanes == 0 && c.column_offsets == nullptr;
}

/// Whether stream() may write all vectors of a whole tile.
bool can_stream(const Tile& c) {
  return c.vector_step % kLanes == 0 && std::ranges::all_of(c.rows, can_stream_to);
}

/// A copy of a tile's existing elements in separate memory, as [kRows][kColumns].
class WholeTile {
 public:
  WholeTile() {
    for (size_t row = 0; row < rows_.size(); ++row) rows_[row] = data_.data() + row * kColumns;
  }

  float* const* rows() const { return rows_.data(); }
  void read(const Tile& c) {
    for_each_piece(
        c, [](float* whole, const float* part, int64_t count) { std::copy_n(part, count, whole); });
  }
  void write(const Tile& c) {
    for_each_piece(
        c, [](const float* whole, float* part, int64_t count) { std::copy_n(whole, count, part); });
  }

 private:
  /// Calls body(address in the copy, address in the tile, count) for segments that are contiguous
  /// in both.
  template <class Body>
  void for_each_piece(const Tile& c, const Body& body) {
    const int64_t piece = c.column_offsets != nullptr ? 1 : kLanes;
    for (int64_t row = 0; row < c.row_count; ++row)
      for (int64_t column = 0; column < c.columns; column += piece) {
        const int64_t offset = c.column_offsets != nullptr ? c.column_offsets[column]
                                                           : column / kLanes * c.vector_step;
        body(rows_[static_cast<size_t>(row)] + column, c.rows[static_cast<size_t>(row)] + offset,
             std::min(piece, c.columns - column));
      }
  }

  alignas(64) std::array<float, kRows * kColumns> data_{};
  std::array<float*, kRows> rows_{};
};

}  // namespace

void multiply_tile(OrderOfA order, const float* a, PanelOfB b, int64_t depth, Start start,
                   const Tile& c, const float* relu) {
  if (is_whole(c))
    return multiply_whole(order, a, b, depth, start, c.columns,
                          {c.rows.data(), c.vector_step, relu, c.streams && can_stream(c)});
  WholeTile whole;
  if (start.memory) whole.read(c);
  multiply_whole(order, a, b, depth, start, c.columns, {whole.rows(), kLanes, relu});
  whole.write(c);
}

}  // namespace poseidon::layers::cpu::product
