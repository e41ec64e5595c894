#include "layers/cpu/bf16_patches.h"

#ifdef __AVX512F__

#include <immintrin.h>

#include <algorithm>
#include <utility>

#include "layers/cpu/bf16_product.h"
#include "layers/cpu/portions.h"

namespace poseidon::layers::cpu {

namespace {

constexpr int64_t kBf16OfVector = 32;
constexpr int64_t kMostAdjacent = 16;  ///< channels of a cell without padding

/// The first `count` lanes of a vector, at most all.
__mmask32 first_lanes(int64_t count) {
  return count >= kBf16OfVector ? 0xFFFFFFFFU : (1U << count) - 1U;
}

/// Copies `cells` neighboring cells of a plain source, whose channels are `plane` elements apart,
/// to [cell][channel].
void interleave_channels(const Bf16* from, int64_t plane, int64_t channels, int64_t cells,
                         Bf16* to) {
  constexpr int64_t kCells = 8, kMostInVector = 4;
  int64_t cell = 0;
  if (channels <= kMostInVector) {
    // A vector has 8 cells of each channel. A permutation makes the channels of a cell adjacent.
    alignas(64) std::array<uint16_t, kBf16OfVector> order{};
    for (int64_t i = 0; i < kCells * channels; ++i)
      order[static_cast<size_t>(i)] = static_cast<uint16_t>(i % channels * kCells + i / channels);
    const __m512i permutation = _mm512_load_si512(order.data());
    const __mmask32 lanes = first_lanes(kCells * channels);
    for (; cell + kCells <= cells; cell += kCells) {
      __m512i planes = _mm512_setzero_si512();
      for (int64_t channel = 0; channel < channels; ++channel)
        planes = _mm512_mask_broadcast_i32x4(
            planes, static_cast<__mmask16>(0xF << 4 * channel),
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + channel * plane + cell)));
      _mm512_mask_storeu_epi16(to + cell * channels, lanes,
                               _mm512_permutexvar_epi16(permutation, planes));
    }
  }
  for (int64_t channel = 0; channel < channels; ++channel)
    for (int64_t i = cell; i < cells; ++i) to[i * channels + channel] = from[channel * plane + i];
}

/// The adjacent columns in a copy with `cells` cells in a row, and `cell` elements in a cell.
std::vector<AdjacentColumns> adjacent_columns(const Patches& patches, const WindowRows& rows,
                                              int64_t cells, int64_t cell) {
  std::vector<AdjacentColumns> all;
  int64_t column = 0;
  for (const Tap& tap : patches.grid().taps) {
    const int64_t end = column + patches.channels();
    const int64_t offset =
        ((tap.offset[0] - rows.least(0)) * cells + tap.offset[1] - rows.least(1)) * cell;
    if (!all.empty() && all.back().offset + column - all.back().begin == offset)
      all.back().end = end;
    else
      all.push_back({.begin = column, .end = end, .offset = offset});
    column = end;
  }
  return all;
}

}  // namespace

ChannelWindow::ChannelWindow(const Patches& patches)
    : rows_(patches.grid()),
      height_(patches.source().height()),
      width_(patches.source().width()),
      source_channels_(patches.source().channels()),
      first_channel_(patches.first_channel()),
      channels_(patches.channels()),
      cells_((patches.grid().width - 1) * patches.grid().step[1] + rows_.span(1)),
      row_(cells_ * channels_) {
  segments_ = adjacent_columns(patches, rows_, cells_, channels_);
}

void ChannelWindow::fill(const Bf16* source, const PlaceRange& range, Bf16* window) const {
  rows_.for_each(range, [&](int64_t sample, int64_t row) {
    if (row < 0 || row >= height_)
      std::fill_n(window, row_, Bf16{});
    else
      fill_row(
          source + (sample * source_channels_ + first_channel_) * height_ * width_ + row * width_,
          window);
    window += row_;
  });
}

/// Copies one row of all channels. `source` is the row of the first channel.
void ChannelWindow::fill_row(const Bf16* source, Bf16* to) const {
  const int64_t left = rows_.least(1);
  const int64_t begin = std::clamp<int64_t>(-left, 0, cells_);
  const int64_t end = std::clamp<int64_t>(width_ - left, begin, cells_);
  std::fill_n(to, begin * channels_, Bf16{});
  interleave_channels(source + left + begin, height_ * width_, channels_, end - begin,
                      to + begin * channels_);
  std::fill(to + end * channels_, to + row_, Bf16{});
}

void ChannelWindow::copy_rows(const Bf16* window, const PlaceRange& range,
                              const Patches::Piece& piece, Bf16* panel, int64_t row_step) const {
  const PatchGrid& grid = rows_.grid();
  const PatchCursor first(grid, range.place);
  PatchCursor at(grid, piece.place);
  for (int64_t done = 0; done < piece.places;) {
    const int64_t places = std::min(grid.width - at.column, piece.places - done);
    const Bf16* from =
        window + rows_.row_of(first, at) * row_ + at.column * grid.step[1] * channels_;
    copy_segments(from, places, piece, panel + done * row_step, row_step);
    done += places;
    at.advance(grid, places);
  }
}

/// Copies the piece's columns for neighboring places of one grid row.
void ChannelWindow::copy_segments(const Bf16* from, int64_t places, const Patches::Piece& piece,
                                  Bf16* panel, int64_t row_step) const {
  const int64_t step = rows_.grid().step[1] * channels_, end = piece.column + piece.columns;
  auto segment = std::ranges::upper_bound(segments_, piece.column, {}, &AdjacentColumns::begin) - 1;
  for (int64_t column = piece.column; column < end;) {
    if (column == segment->end) ++segment;
    const int64_t left = std::min(segment->end, end) - column;
    const int64_t count = std::min(left, kBf16OfVector);
    const __mmask32 lanes = first_lanes(count);
    const Bf16* first = from + segment->offset + column - segment->begin;
    for (int64_t place = 0; place < places; ++place)
      _mm512_mask_storeu_epi16(panel + place * row_step, lanes,
                               _mm512_maskz_loadu_epi16(lanes, first + place * step));
    column += count;
    panel += count;
  }
}

bool PaddedCells::are_legal(const Patches& patches) {
  const PatchGrid& grid = patches.grid();
  return grid.step == std::array<int64_t, 2>{1, 1} && !grid.taps.empty() &&
         (patches.by_channels() || patches.channels() <= kMostAdjacent);
}

PaddedCells::PaddedCells(Patches patches) : patches_(std::move(patches)) {
  const PatchGrid& grid = patches_.grid();
  const WindowRows rows(grid);
  least_ = {rows.least(0), rows.least(1)};
  rows_ = grid.height + rows.span(0) - 1;
  pitch_ = grid.width + rows.span(1) - 1;
  reach_ = (rows.span(0) - 1) * pitch_ + rows.span(1) - 1;
  cell_ = patches_.channels();
  if (cell_ > kMostAdjacent) cell_ = round_up(cell_, product::kUnitOfBf16);
  adjacent_ = adjacent_columns(patches_, rows, pitch_, cell_);
}

PaddedCells::Run PaddedCells::run_at(int64_t position) const {
  const PatchGrid& grid = patches_.grid();
  const int64_t column = position % pitch_, row = position / pitch_;
  if (column >= grid.width || row % rows_ >= grid.height)
    return {.place = -1, .count = pitch_ - column};
  return {.place = (row / rows_ * grid.height + row % rows_) * grid.width + column,
          .count = grid.width - column};
}

PlaceRange PaddedCells::places_of(int64_t position, int64_t count) const {
  PlaceRange places{0, 0};
  for (const int64_t end = position + count; position < end;) {
    const Run run = run_at(position);
    if (run.place >= 0 && places.places == 0) places.place = run.place;
    if (run.place >= 0) places.places += std::min(run.count, end - position);
    position += run.count;
  }
  return places;
}

int64_t PaddedCells::elements(int64_t count) const {
  return (round_up(count, product::kRowsOfBf16) + reach_) * cell_ + product::kUnitOfBf16;
}

void PaddedCells::copy(const Bf16* source, int64_t position, int64_t count, Bf16* to) const {
  const int64_t end = position + count + reach_;
  while (position < end) {
    const int64_t column = position % pitch_;
    const int64_t cells = std::min(pitch_ - column, end - position);
    copy_row(source, position / pitch_, column, cells, to);
    position += cells;
    to += cells * cell_;
  }
  // The last unit of a row may read more elements, and multiplies them by zeros.
  std::fill_n(to, product::kUnitOfBf16, Bf16{});
}

/// Copies `cells` cells of one row, from `column` on.
void PaddedCells::copy_row(const Bf16* source, int64_t row, int64_t column, int64_t cells,
                           Bf16* to) const {
  const Shape& shape = patches_.source();
  const int64_t sample = row / rows_, from_row = row % rows_ + least_[0];
  int64_t begin = 0, end = 0;  // the cells that are in the source
  if (sample < shape.samples() && from_row >= 0 && from_row < shape.height()) {
    begin = std::clamp<int64_t>(-least_[1] - column, 0, cells);
    end = std::clamp<int64_t>(shape.width() - least_[1] - column, begin, cells);
  }
  std::fill_n(to, begin * cell_, Bf16{});
  std::fill(to + end * cell_, to + cells * cell_, Bf16{});
  if (begin == end) return;
  to += begin * cell_;
  const int64_t from_column = column + begin + least_[1];
  if (!patches_.by_channels()) {
    const Blocking plain(shape, Layout::kPlain);
    interleave_channels(source + plain.offset(sample, patches_.first_channel(),
                                              from_row * shape.width() + from_column),
                        shape.area(), patches_.channels(), end - begin, to);
    return;
  }
  patches_.copy_cells_of_row(source, sample, from_row, from_column, end - begin, to, cell_);
  const __mmask32 padding = first_lanes(cell_ - patches_.channels());
  if (padding == 0) return;
  for (int64_t cell = 0; cell < end - begin; ++cell)
    _mm512_mask_storeu_epi16(to + cell * cell_ + patches_.channels(), padding,
                             _mm512_setzero_si512());
}

Bf16Patches::Bf16Patches(Patches patches) : patches_(std::move(patches)) {
  if (!patches_.by_channels() && patches_.columns() > 0) window_.emplace(patches_);
}

Bf16Patches::Source Bf16Patches::source(const Bf16* activation, const PlaceRange& range,
                                        Bf16* memory) const {
  if (window_) window_->fill(activation, range, memory);
  return {activation, range, memory};
}

void Bf16Patches::copy_rows(const Source& source, const Patches::Piece& piece, int64_t padded,
                            Bf16* panel, int64_t row_step) const {
  if (window_)
    window_->copy_rows(source.window, source.range, piece, panel, row_step);
  else if (piece.columns > 0)
    patches_.copy_rows(source.activation, piece, panel, row_step);
  const __mmask32 lanes = first_lanes(padded - piece.columns);
  if (lanes == 0) return;
  for (int64_t place = 0; place < piece.places; ++place)
    _mm512_mask_storeu_epi16(panel + place * row_step + piece.columns, lanes,
                             _mm512_setzero_si512());
}

}  // namespace poseidon::layers::cpu

#endif
