#include "layers/cpu/patches.h"

#include <algorithm>
#include <utility>

#include "layers/cpu/vectors.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace poseidon::layers::cpu {

namespace {

/// Copies `count` floats: vectors of 16, then the rest.
[[gnu::always_inline]] inline void copy_numbers(const float* from, int64_t count, float* to) {
  constexpr int64_t kVector = 16;
  int64_t i = 0;
  for (; i + kVector <= count; i += kVector) std::copy_n(from + i, kVector, to + i);
#ifdef __AVX512F__
  const auto rest = static_cast<__mmask16>((1U << (count - i)) - 1);
  if (rest != 0) _mm512_mask_storeu_ps(to + i, rest, _mm512_maskz_loadu_ps(rest, from + i));
#else
  for (; i < count; ++i) to[i] = from[i];
#endif
}

template <size_t... kLane>
[[gnu::always_inline]] inline auto even_lanes(const auto& low, const auto& high,
                                              std::index_sequence<kLane...>) {
  return __builtin_shufflevector(low, high, 2 * kLane...);
}

/// Copies every `step`-th number.
void copy_strided(const float* from, int64_t step, int64_t count, float* to) {
  using Float = Vectors<kLanesOfBlock>::Float;
  constexpr int64_t kLanes = kLanesOfBlock;
  int64_t i = 0;
  // Each iteration also reads the number after the last one that it copies. That number exists,
  // because the loop ends before the last vector.
  if (step == 2)
    for (; i + kLanes < count; i += kLanes)
      store(to + i, even_lanes(load<Float>(from + 2 * i), load<Float>(from + 2 * i + kLanes),
                               std::make_index_sequence<kLanesOfBlock>()));
  for (; i < count; ++i) to[i] = from[i * step];
}

int64_t divided_up(int64_t value, int64_t by) {
  return value <= 0 ? -(-value / by) : (value + by - 1) / by;
}

}  // namespace

Patches::Patches(PatchGrid grid, const Shape& source, Layout layout, int64_t first_channel,
                 int64_t channels)
    : grid_(std::move(grid)),
      layout_(source, layout),
      height_(source.height()),
      width_(source.width()),
      first_channel_(first_channel),
      channels_(channels),
      places_are_cells_(grid_.height == height_ && grid_.width == width_ &&
                        grid_.step == std::array<int64_t, 2>{1, 1} && grid_.taps.size() == 1 &&
                        grid_.taps[0].offset == std::array<int64_t, 2>{0, 0}) {
  if (by_channels())
    list_runs();
  else
    list_inside();
}

void Patches::list_runs() {
  int64_t column = 0;
  for (const Tap& tap : grid_.taps)
    for (int64_t channel = 0; channel < channels_;) {
      const int64_t at = first_channel_ + channel;
      const int64_t count = std::min(channels_ - channel, layout_.block - at % layout_.block);
      runs_.push_back({.column = column, .offset = layout_.offset(0, at, 0), .tap = tap});
      column += count;
      channel += count;
    }
  runs_.push_back({.column = column, .offset = 0, .tap = {}});
}

void Patches::list_inside() {
  const int64_t step = grid_.step[1];
  for (const Tap& tap : grid_.taps) {
    const int64_t begin = std::clamp<int64_t>(divided_up(-tap.offset[1], step), 0, grid_.width);
    const int64_t end =
        std::clamp<int64_t>(divided_up(width_ - tap.offset[1], step), begin, grid_.width);
    inside_.push_back({begin, end});
  }
}

void Patches::copy_rows(const float* source, const Piece& piece, float* panel,
                        int64_t row_step) const {
  const auto after = std::ranges::upper_bound(runs_, piece.column, {}, &Run::column);
  const auto first = static_cast<size_t>(after - runs_.begin() - 1);
  const bool is_block = row_step == layout_.block && piece.column == runs_[first].column &&
                        runs_[first].offset % layout_.block == 0 && piece.columns <= row_step;
  if (places_are_cells_ && is_block) return copy_blocks(source + runs_[first].offset, piece, panel);
  PatchCursor at(grid_, piece.place);
  for (int64_t i = 0; i < piece.places; ++i, panel += row_step, at.advance(grid_, 1))
    copy_runs(source, at, piece, first, panel);
}

/// Copies one block of channels for each of the `piece.places` cells. In a sample, these blocks are
/// contiguous. A row of the panel receives a whole block, even if `piece` has fewer columns.
void Patches::copy_blocks(const float* source, const Piece& piece, float* panel) const {
  const int64_t of_sample = layout_.blocks * layout_.area * layout_.block;
  for (int64_t place = piece.place, end = place + piece.places; place < end;) {
    const int64_t cell = place % layout_.area, cells = std::min(layout_.area - cell, end - place);
    panel = std::copy_n(source + place / layout_.area * of_sample + cell * layout_.block,
                        cells * layout_.block, panel);
    place += cells;
  }
}

void Patches::copy_runs(const float* source, const PatchCursor& at, const Piece& piece,
                        size_t first, float* panel) const {
  source += at.sample * layout_.blocks * layout_.area * layout_.block;
  const int64_t first_row = at.row * grid_.step[0], first_column = at.column * grid_.step[1];
  const int64_t end = piece.column + piece.columns;
  int64_t begin = piece.column;
  for (const Run* run = &runs_[first]; begin < end; ++run) {
    const int64_t count = std::min(run[1].column, end) - begin;
    const int64_t row = first_row + run->tap.offset[0], column = first_column + run->tap.offset[1];
    if (is_row(row) && column >= 0 && column < width_)
      copy_numbers(
          source + run->offset + (begin - run->column) + (row * width_ + column) * layout_.block,
          count, panel);
    else
      std::fill_n(panel, count, 0.0F);
    panel += count;
    begin += count;
  }
}

void Patches::copy_columns(const float* source, const Piece& piece, float* panel,
                           int64_t column_step) const {
  PatchCursor at(grid_, piece.place);
  for (int64_t done = 0; done < piece.places;) {
    const int64_t cells = std::min(grid_.width - at.column, piece.places - done);
    auto tap = static_cast<size_t>(piece.column / channels_);
    int64_t channel = piece.column % channels_;
    for (int64_t column = 0; column < piece.columns; ++column) {
      copy_cells(source, at, tap, channel, cells, panel + column * column_step + done);
      if (++channel == channels_) {
        channel = 0;
        ++tap;
      }
    }
    done += cells;
    at.advance(grid_, cells);
  }
}

/// For one tap and channel: copies the source cells of `cells` neighboring places of one grid row.
/// Writes 0 for cells outside the source.
void Patches::copy_cells(const float* source, const PatchCursor& at, size_t tap, int64_t channel,
                         int64_t cells, float* to) const {
  const auto& offset = grid_.taps[tap].offset;
  const int64_t row = at.row * grid_.step[0] + offset[0], step = grid_.step[1];
  if (!is_row(row)) {
    std::fill_n(to, cells, 0.0F);
    return;
  }
  const int64_t begin = std::clamp<int64_t>(inside_[tap].begin - at.column, 0, cells);
  const int64_t end = std::clamp<int64_t>(inside_[tap].end - at.column, begin, cells);
  std::fill_n(to, begin, 0.0F);
  const int64_t plane = at.sample * layout_.blocks + first_channel_ + channel;
  const float* from = source + plane * layout_.area + row * width_ + at.column * step + offset[1];
  if (step == 1)
    copy_numbers(from + begin, end - begin, to + begin);
  else
    copy_strided(from + begin * step, step, end - begin, to + begin);
  std::fill(to + end, to + cells, 0.0F);
}

}  // namespace poseidon::layers::cpu
