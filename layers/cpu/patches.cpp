#include "layers/cpu/patches.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "layers/cpu/strided_copy.h"

namespace poseidon::layers::cpu {

namespace {

constexpr int64_t kLanesOfPatch = kLanesOfBlock;

/// Rows of a matrix in memory, `step` elements from one to the next.
template <class Element>
struct MatrixRows {
  Element* data;
  int64_t step;
};

/// Copies kCount columns, at most one vector, of `rows` rows.
template <int64_t kCount, class Element>
void copy_columns_of(MatrixRows<const Element> from, MatrixRows<Element> to, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    std::array<Element, static_cast<size_t>(kCount)> numbers;
    std::memcpy(numbers.data(), from.data + row * from.step, sizeof numbers);
    std::memcpy(to.data + row * to.step, numbers.data(), sizeof numbers);
  }
}

/// Copies `count` columns, fewer than a vector, of `rows` rows.
void copy_few_columns(MatrixRows<const float> from, MatrixRows<float> to, int64_t rows,
                      int64_t count) {
#ifdef __AVX512F__
  const LaneMask mask = lanes_between(0, count);
  for (int64_t row = 0; row < rows; ++row)
    _mm512_mask_storeu_ps(to.data + row * to.step, mask,
                          load_lanes(from.data + row * from.step, mask));
#else
  using Copy = void (*)(MatrixRows<const float>, MatrixRows<float>, int64_t);
  constexpr std::array<Copy, 8> kCopies{nullptr,
                                        copy_columns_of<1, float>,
                                        copy_columns_of<2, float>,
                                        copy_columns_of<3, float>,
                                        copy_columns_of<4, float>,
                                        copy_columns_of<5, float>,
                                        copy_columns_of<6, float>,
                                        copy_columns_of<7, float>};
  kCopies[static_cast<size_t>(count)](from, to, rows);
#endif
}

#ifdef __AVX512F__
void copy_few_columns(MatrixRows<const Bf16> from, MatrixRows<Bf16> to, int64_t rows,
                      int64_t count) {
  const LaneMask mask = lanes_between(0, count);
  for (int64_t row = 0; row < rows; ++row)
    _mm256_mask_storeu_epi16(to.data + row * to.step, mask,
                             _mm256_maskz_loadu_epi16(mask, from.data + row * from.step));
}
#endif

template <class Element>
void copy_matrix(MatrixRows<const Element> from, MatrixRows<Element> to, int64_t rows,
                 int64_t count) {
  for (; count >= kLanesOfPatch; count -= kLanesOfPatch) {
    copy_columns_of<kLanesOfPatch>(from, to, rows);
    from.data += kLanesOfPatch;
    to.data += kLanesOfPatch;
  }
  if (count > 0) copy_few_columns(from, to, rows, count);
}

/// Copies zeros, because the compiler calls memset for std::fill_n.
template <class Element>
void clear_matrix(MatrixRows<Element> to, int64_t rows, int64_t count) {
  static constexpr std::array<float, kLanesOfPatch> kZeros{};
  const auto* zeros = reinterpret_cast<const Element*>(kZeros.data());
  for (; count > 0; count -= kLanesOfPatch, to.data += kLanesOfPatch)
    copy_matrix<Element>({zeros, 0}, to, rows, std::min(count, kLanesOfPatch));
}

}  // namespace

Patches::Patches(PatchGrid grid, const Shape& source, Layout layout, int64_t first_channel,
                 int64_t channels)
    : grid_(std::move(grid)),
      source_(source),
      layout_(source, layout),
      height_(source.height()),
      width_(source.width()),
      first_channel_(first_channel),
      channels_(channels),
      places_are_cells_(grid_.height == height_ && grid_.width == width_ &&
                        grid_.step == std::array<int64_t, 2>{1, 1} && grid_.taps.size() == 1 &&
                        grid_.taps[0].offset == std::array<int64_t, 2>{0, 0}) {
  list_inside();
  if (by_channels()) list_runs();
}

void Patches::list_runs() {
  int64_t column = 0;
  for (size_t tap = 0; tap < grid_.taps.size(); ++tap)
    for (int64_t channel = 0; channel < channels_;) {
      const int64_t at = first_channel_ + channel;
      const int64_t count = std::min(channels_ - channel, layout_.block - at % layout_.block);
      runs_.push_back({.column = column, .offset = layout_.offset(0, at, 0), .tap = tap});
      column += count;
      channel += count;
    }
  runs_.push_back({.column = column, .offset = 0, .tap = 0});
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

template <class Element>
void Patches::copy_rows(const Element* source, const Piece& piece, Element* panel,
                        int64_t row_step) const {
  const auto after = std::ranges::upper_bound(runs_, piece.column, {}, &Run::column);
  const auto first = static_cast<size_t>(after - runs_.begin() - 1);
  const bool is_block = row_step == layout_.block && piece.column == runs_[first].column &&
                        runs_[first].offset % layout_.block == 0 && piece.columns <= row_step;
  if (places_are_cells_ && is_block) return copy_blocks(source + runs_[first].offset, piece, panel);
  PatchCursor at(grid_, piece.place);
  for (int64_t done = 0; done < piece.places;) {
    const int64_t cells = std::min(grid_.width - at.column, piece.places - done);
    copy_runs(source, at, cells, piece, first, panel + done * row_step, row_step);
    done += cells;
    at.advance(grid_, cells);
  }
}

/// Copies one block of channels for each of the `piece.places` cells. In a sample, these blocks are
/// contiguous. A row of the panel receives a whole block, even if `piece` has fewer columns.
template <class Element>
void Patches::copy_blocks(const Element* source, const Piece& piece, Element* panel) const {
  const int64_t of_sample = layout_.blocks * layout_.area * layout_.block;
  for (int64_t place = piece.place, end = place + piece.places; place < end;) {
    const int64_t cell = place % layout_.area, cells = std::min(layout_.area - cell, end - place);
    panel = std::copy_n(source + place / layout_.area * of_sample + cell * layout_.block,
                        cells * layout_.block, panel);
    place += cells;
  }
}

/// Copies the piece's columns for `cells` neighboring places of one grid row.
template <class Element>
void Patches::copy_runs(const Element* source, const PatchCursor& at, int64_t cells,
                        const Piece& piece, size_t first, Element* panel, int64_t row_step) const {
  source += at.sample * layout_.blocks * layout_.area * layout_.block;
  const int64_t end = piece.column + piece.columns, step = grid_.step[1] * layout_.block;
  int64_t begin = piece.column;
  for (const Run* run = &runs_[first]; begin < end;) {
    const size_t tap = run->tap;
    const auto& offset = grid_.taps[tap].offset;
    const Inside inside = inside_of(tap, at, cells);
    const int64_t cell = (at.row * grid_.step[0] + offset[0]) * width_ + offset[1] +
                         (at.column + inside.begin) * grid_.step[1];
    for (; begin < end && run->tap == tap; ++run) {
      const int64_t count = std::min(run[1].column, end) - begin;
      if (inside.begin > 0) clear_matrix<Element>({panel, row_step}, inside.begin, count);
      if (inside.begin < inside.end)
        copy_matrix<Element>(
            {source + run->offset + begin - run->column + cell * layout_.block, step},
            {panel + inside.begin * row_step, row_step}, inside.end - inside.begin, count);
      if (inside.end < cells)
        clear_matrix<Element>({panel + inside.end * row_step, row_step}, cells - inside.end, count);
      panel += count;
      begin += count;
    }
  }
}

template void Patches::copy_rows(const float*, const Piece&, float*, int64_t) const;
template void Patches::copy_cells_of_row(const float*, int64_t, int64_t, int64_t, int64_t, float*,
                                         int64_t) const;
#ifdef __AVX512F__
template void Patches::copy_rows(const Bf16*, const Piece&, Bf16*, int64_t) const;
template void Patches::copy_cells_of_row(const Bf16*, int64_t, int64_t, int64_t, int64_t, Bf16*,
                                         int64_t) const;
#endif

template <class Element>
void Patches::copy_cells_of_row(const Element* source, int64_t sample, int64_t row, int64_t column,
                                int64_t cells, Element* to, int64_t cell_step) const {
  for (int64_t channel = 0; channel < channels_;) {
    const int64_t at = first_channel_ + channel;
    const int64_t count = std::min(channels_ - channel, layout_.block - at % layout_.block);
    copy_matrix<Element>(
        {source + layout_.offset(sample, at, row * width_ + column), layout_.block},
        {to + channel, cell_step}, cells, count);
    channel += count;
  }
}

/// The range of `cells` neighboring places of one grid row for which a tap reads inside the source.
Patches::Inside Patches::inside_of(size_t tap, const PatchCursor& at, int64_t cells) const {
  const int64_t row = at.row * grid_.step[0] + grid_.taps[tap].offset[0];
  if (row < 0 || row >= height_) return {0, 0};
  const int64_t begin = std::clamp<int64_t>(inside_[tap].begin - at.column, 0, cells);
  return {begin, std::clamp<int64_t>(inside_[tap].end - at.column, begin, cells)};
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
  const Inside inside = inside_of(tap, at, cells);
  std::fill_n(to, inside.begin, 0.0F);
  const int64_t count = inside.end - inside.begin, step = grid_.step[1];
  if (count > 0) {
    const int64_t plane = at.sample * layout_.blocks + first_channel_ + channel;
    const auto& offset = grid_.taps[tap].offset;
    const int64_t row = at.row * grid_.step[0] + offset[0];
    const int64_t column = (at.column + inside.begin) * step + offset[1];
    copy_strided(source + plane * layout_.area + row * width_ + column, step, count,
                 to + inside.begin);
  }
  std::fill(to + inside.end, to + cells, 0.0F);
}

}  // namespace poseidon::layers::cpu
