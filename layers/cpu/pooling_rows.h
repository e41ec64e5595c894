#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "layers/cpu/vectors.h"
#include "layers/pooling.h"

/// Pooling of rows of vectors, [cell][kLanesOfBlock]. Each lane is a separate plane
/// (layers/cpu/lanes.h). The maximum of a window is the greatest of its rows' maxima, and its sum
/// is the sum of its rows' sums.
namespace poseidon::layers::cpu::pooling_rows {

inline constexpr int64_t kLanes = kLanesOfBlock;
using Float = Vectors<kLanesOfBlock>::Float;
using Int = Vectors<kLanesOfBlock>::Int;
using Place = Vectors<kLanesOfBlock>::Place;

/// Neighboring cells of an axis, or neighboring windows: [begin, end).
struct Span {
  int64_t begin, end;
};

inline int64_t longest(const std::vector<Span>& spans) {
  int64_t most = 1;
  for (const Span& span : spans) most = std::max(most, span.end - span.begin);
  return most;
}

/// The windows along one axis.
struct Windows {
  Windows(const Pooling& pooling, int axis);

  const Span& cells_of(int64_t window) const { return cells[static_cast<size_t>(window)]; }
  const Span& covering_of(int64_t cell) const { return covering[static_cast<size_t>(cell)]; }

  std::vector<Span> cells;     ///< the cells of each window, without padding
  std::vector<int64_t> whole;  ///< divisor of the mean: cells of each window in the padded input
  std::vector<Span> covering;  ///< the windows that cover each cell
};

inline Windows::Windows(const Pooling& pooling, int axis) {
  const auto i = static_cast<size_t>(axis);
  const int64_t size = pooling.input[2 + axis];
  for (int64_t o = 0; o < pooling.output[2 + axis]; ++o) {
    if (pooling.is_even()) {
      const EvenWindows even = pooling.even_windows(axis);
      cells.push_back({even.begin(o), even.end(o)});
      whole.push_back(even.end(o) - even.begin(o));
      continue;
    }
    const int64_t begin = o * pooling.stride[i] - pooling.padding.before[i];
    const int64_t end = std::min(begin + pooling.kernel[i], size + pooling.padding.after[i]);
    cells.push_back({std::max<int64_t>(begin, 0), std::min(end, size)});
    whole.push_back(end - begin);
  }
  Span span{0, 0};
  const auto count = static_cast<int64_t>(cells.size());
  for (int64_t cell = 0; cell < size; ++cell) {
    while (span.end < count && cells[static_cast<size_t>(span.end)].begin <= cell) ++span.end;
    while (span.begin < span.end && cells[static_cast<size_t>(span.begin)].end <= cell)
      ++span.begin;
    covering.push_back(span);
  }
}

/// A ring buffer of rows of vectors. It has room for at least `rows` rows, as many as the longest
/// span has.
class Ring {
 public:
  Ring(float* memory, int64_t rows, int64_t cells)
      : memory_(memory), mask_(rows_for(rows) - 1), floats_(cells * kLanes) {}
  float* operator[](int64_t row) const { return memory_ + (row & mask_) * floats_; }

  /// A power of two, so that finding a row needs no division.
  static constexpr int64_t rows_for(int64_t rows) {
    return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(rows)));
  }

 private:
  float* memory_;
  int64_t mask_, floats_;
};

/// For each wanted span: calls make(row) in order for the span's rows that no earlier wanted span
/// contains, and then use(index of the span). The spans must begin and end in ascending order.
template <class Make, class Use>
void for_each_span(const std::vector<Span>& spans, const Span& wanted, const Make& make,
                   const Use& use) {
  int64_t made = 0;
  for (int64_t i = wanted.begin; i < wanted.end; ++i) {
    const Span& span = spans[static_cast<size_t>(i)];
    for (made = std::max(made, span.begin); made < span.end; ++made) make(made);
    use(i);
  }
}

/// The sums of a row's cells in each span.
inline void sum_columns(const float* row, const std::vector<Span>& columns, float* sums) {
  for (const Span& span : columns) {
    Float sum{};
    for (int64_t x = span.begin; x < span.end; ++x) sum += load<Float>(row + x * kLanes);
    store(sums, sum);
    sums += kLanes;
  }
}

/// The sums of `cells` cells over the rows of a span.
inline void sum_rows(const Ring& ring, const Span& rows, int64_t cells, float* sums) {
  for (int64_t i = 0; i < cells * kLanes; i += kLanes) {
    Float sum{};
    for (int64_t y = rows.begin; y < rows.end; ++y) sum += load<Float>(ring[y] + i);
    store(sums + i, sum);
  }
}

/// A flag in the indices that best_of_columns() stores. The flag is set if the first cell of the
/// span is NaN.
constexpr int32_t kFirstIsNaN = 1 << 20;

/// For each span of a row: stores the greatest cell in `best`, and the index in the span of the
/// first cell with this value in `columns_of_best`. NaN is not greater than any number.
inline void best_of_columns(const float* row, const std::vector<Span>& columns, float* best,
                            float* columns_of_best) {
  constexpr float kMin = -std::numeric_limits<float>::infinity();
  for (const Span& span : columns) {
    const float* cells = row + span.begin * kLanes;
    const Float first = load<Float>(cells);
    Float value = first == first ? first : Float{} + kMin;
    Int where{}, here{};
    for (int64_t x = span.begin + 1; x < span.end; ++x) {
      cells += kLanes;
      here += 1;
      const Float cell = load<Float>(cells);
      const Int greater = cell > value;
      value = greater ? cell : value;
      where = greater ? here : where;
    }
    store(best, value);
    store(columns_of_best, where | (first == first ? Int{} : Int{} + kFirstIsNaN));
    best += kLanes;
    columns_of_best += kLanes;
  }
}

/// The greatest cell over the rows of a span, and its place in the window: row * row_places +
/// column. If the window's first cell is NaN, that cell is chosen instead. `places` may be null.
inline void best_of_rows(const Ring& ring, const Ring& columns_of_best, const Span& rows,
                         int64_t cells, int64_t row_places, float* best, uint16_t* places) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  for (int64_t i = 0; i < cells * kLanes; i += kLanes) {
    const Int first = load<Int>(columns_of_best[rows.begin] + i);
    const Int is_nan = first >= kFirstIsNaN;
    Float value = is_nan ? Float{} + kNaN : load<Float>(ring[rows.begin] + i);
    Int where = is_nan ? Int{} : first, row{};
    for (int64_t y = rows.begin + 1; y < rows.end; ++y) {
      row += static_cast<int32_t>(row_places);
      const Float cell = load<Float>(ring[y] + i);
      const Int column = load<Int>(columns_of_best[y] + i) & (kFirstIsNaN - 1);
      const Int greater = cell > value;
      value = greater ? cell : value;
      where = greater ? row + column : where;
    }
    store(best + i, value);
    if (places != nullptr) store(places + i, __builtin_convertvector(where, Place));
  }
}

/// For each window that chose a place in [first, first + row_places): adds its gradient to `sums`,
/// and stores the column that it chose in `columns`.
inline void add_where_row_taken(const float* gradient, const uint16_t* places, int64_t cells,
                                int64_t first, int64_t row_places, float* sums, float* columns) {
  for (int64_t i = 0; i < cells * kLanes; i += kLanes) {
    const Int here =
        __builtin_convertvector(load<Place>(places + i), Int) - static_cast<int32_t>(first);
    const Int is_here = (here >= 0) & (here < static_cast<int32_t>(row_places));
    store(sums + i, load<Float>(sums + i) + (is_here ? load<Float>(gradient + i) : Float{}));
    store(columns + i, is_here ? here : load<Int>(columns + i));
  }
}

/// For each cell of a row, the sum of the gradients of the windows that chose it.
inline void add_where_column_taken(const float* sums, const float* columns, const Windows& windows,
                                   float* to) {
  for (size_t x = 0; x < windows.covering.size(); ++x, to += kLanes) {
    Float sum{};
    for (int64_t o = windows.covering[x].begin; o < windows.covering[x].end; ++o) {
      const int64_t here = static_cast<int64_t>(x) - windows.cells_of(o).begin;
      const Int is_here = load<Int>(columns + o * kLanes) == static_cast<int32_t>(here);
      sum += is_here ? load<Float>(sums + o * kLanes) : Float{};
    }
    store(to, sum);
  }
}

/// Calls each(a cell of the window, its place: row * row_places + column).
template <class RowAt, class Each>
void for_each_cell(const RowAt& row_at, const Span& rows, const Span& columns, int64_t row_places,
                   const Each& each) {
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const float* row = row_at(y);
    for (int64_t x = columns.begin; x < columns.end; ++x)
      each(load<Float>(row + x * kLanes), (y - rows.begin) * row_places + x - columns.begin);
  }
}

template <class RowAt>
Float sum_of_window(const RowAt& row_at, const Span& rows, const Span& columns) {
  Float sum{};
  for_each_cell(row_at, rows, columns, 0, [&](const Float& cell, int64_t) { sum += cell; });
  return sum;
}

/// A thread's memory for rows of vectors.
class Room {
 public:
  explicit Room(float* memory) : next_(memory) {}
  float* take(int64_t cells) {
    float* piece = next_;
    next_ += cells * kLanes;
    return piece;
  }
  Ring ring(int64_t rows, int64_t cells) {
    return {take(Ring::rows_for(rows) * cells), rows, cells};
  }

 private:
  float* next_;
};

}  // namespace poseidon::layers::cpu::pooling_rows
