#include "layers/cpu/patch_product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "layers/cpu/product.h"

namespace poseidon::layers::cpu::product {

namespace {

/// The maximum number of tiles of places in a task.
constexpr int64_t kMostTiles = 32;

/// Tiles of a task read these panels of the weight from the second-level cache: 480 KiB with
/// AVX-512, 240 KiB with AVX2, else 120 KiB.
constexpr int64_t kStripsOfGroup = 12;

/// A group of tiles of places reads each panel of the weight from the second-level cache once. Its
/// panels of patches and a panel of the weight stay in 32 KiB of the first-level cache.
constexpr int64_t kMostTilesOfGroup = 8, kFloatsOfGroup = 8192;

/// Reading the weight's panels takes about as long as computing this many places. Copying the
/// patches takes about as long as computing this many columns.
constexpr int64_t kPlacesOfWeight = 14, kColumnsOfCopy = 8;

/// Range `index` of `count` equal ranges of [0, size).
std::pair<int64_t, int64_t> range_of(int64_t size, int64_t index, int64_t count) {
  return {size * index / count, size * (index + 1) / count};
}

}  // namespace

PatchProduct::PatchProduct(Patches patches, const PatchWeight& weight, const PatchResult& result,
                           int64_t threads)
    : patches_(std::move(patches)),
      weight_(weight),
      channels_(result.channels),
      cells_(result),
      depths_(std::max<int64_t>(1, pieces(patches_.columns(), kDepth))),
      strips_(pieces(cells_.columns(), kColumns)) {
  divide(threads);
  tiles_of_group_ = most_tiles_of_group();
  // Rows of a weight in place are in few sets of the first-level cache, so a group evicts them.
  in_place_ = tiles_of_group_ == 1 && weight_has_rows();
  if (patches_.by_channels() || patches_.columns() == 0) return;
  PatchWindow window(patches_.grid(), patches_.source(), patches_.first_channel(),
                     patches_.channels());
  if (window.is_small(places_of_task())) window_ = std::move(window);
}

/// Whether row k of the weight as a matrix is at k * channel_step, and has whole vectors.
bool PatchProduct::weight_has_rows() const {
  const PatchGrid& grid = patches_.grid();
  for (size_t tap = 0; tap < grid.taps.size(); ++tap)
    if (grid.taps[tap].index != static_cast<int64_t>(tap)) return false;
  return weight_.result_step == 1 && channels_ % kLanes == 0 &&
         weight_.tap_step == patches_.channels() * weight_.channel_step;
}

int64_t PatchProduct::tiles() const { return pieces(patches_.places(), kRows); }

/// Chooses the division into tasks with the least time on `threads` threads. Large tasks read the
/// weight's panels and copy patches less often. With small tasks, all threads have work.
void PatchProduct::divide(int64_t threads) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t strips = 1; strips <= std::min(strips_, threads); ++strips)
    for (int64_t most = std::min(kMostTiles, tiles()); most > 0; --most) {
      const int64_t ranges = pieces(tiles(), most);
      const int64_t time = pieces(ranges * strips, threads) *
                           (pieces(tiles(), ranges) * kRows + kPlacesOfWeight) *
                           (pieces(strips_, strips) * kColumns + kColumnsOfCopy);
      if (time >= least) continue;
      least = time;
      ranges_of_tiles_ = ranges;
      ranges_of_strips_ = strips;
    }
}

int64_t PatchProduct::weight_elements() const { return weight_panels() * kPanelOfB; }

/// The maximum number of places in a task.
int64_t PatchProduct::places_of_task() const { return pieces(tiles(), ranges_of_tiles_) * kRows; }

/// The tiles of a task that fit in a group.
int64_t PatchProduct::most_tiles_of_group() const {
  const int64_t depth = std::max<int64_t>(1, pieces(patches_.columns(), depths_));
  const int64_t fitting = (kFloatsOfGroup - depth * kColumns) / (depth * kRows);
  const int64_t tiles_of_task = pieces(tiles(), ranges_of_tiles_);
  return std::max<int64_t>(1, std::min({fitting, tiles_of_task, kMostTilesOfGroup}));
}

float* PatchProduct::window(const Memory& memory) const {
  return panels_of_patches(memory) + tiles_of_group_ * kPanelOfA;
}

/// Panels of patches, then a window.
int64_t PatchProduct::scratch_bytes() const {
  const int64_t window = window_ ? pieces(window_->floats(places_of_task()), kLanes) * kLanes : 0;
  return (tiles_of_group_ * kPanelOfA + window) * 4;
}

PatchProduct::Range PatchProduct::depth_range(int64_t depth) const {
  const auto [begin, end] = range_of(patches_.columns(), depth, depths_);
  return {begin, end};
}

void PatchProduct::pack_weight(int64_t panel, const float* weight, float* panels) const {
  const Range depth = depth_range(panel / strips_);
  for (int64_t v = 0; v < kVectors; ++v) {
    const int64_t first = panel % strips_ * kColumns + v * kLanes;
    copy_weight(weight_, patches_, weight,
                {.begin = depth.begin,
                 .end = depth.end,
                 .result = first,
                 .lanes = std::clamp<int64_t>(channels_ - first, 0, kLanes)},
                panels + panel * kPanelOfB + v * kDepth * kLanes);
  }
}

void PatchProduct::run(int64_t index, const Memory& memory) const {
  const auto [first_tile, last_tile] =
      range_of(tiles(), index % ranges_of_tiles_, ranges_of_tiles_);
  const auto [first_strip, last_strip] =
      range_of(strips_, index / ranges_of_tiles_, ranges_of_strips_);
  const Range places{first_tile * kRows, std::min(last_tile * kRows, patches_.places())};
  if (window_) window_->fill(memory.source, {places.begin, places.count()}, window(memory));
  for (int64_t depth = 0; depth < depths_; ++depth)
    for (int64_t strip = first_strip; strip < last_strip; strip += kStripsOfGroup) {
      const Range strips{strip, std::min(strip + kStripsOfGroup, last_strip)};
      for (int64_t place = places.begin; place < places.end; place += tiles_of_group_ * kRows) {
        const Range group{place, std::min(place + tiles_of_group_ * kRows, places.end)};
        float* panel = panels_of_patches(memory);
        for (int64_t tile = place; tile < group.end; tile += kRows, panel += kPanelOfA)
          copy_patches(memory, places, {tile, std::min(tile + kRows, group.end)},
                       depth_range(depth), panel);
        run_tiles(memory, group, depth, strips);
      }
    }
}

/// Copies the patches of a tile to a panel. `places`: those of the task.
void PatchProduct::copy_patches(const Memory& memory, Range places, Range tile, Range depth,
                                float* panel) const {
  const Patches::Piece piece{
      .place = tile.begin, .places = tile.count(), .column = depth.begin, .columns = depth.count()};
  if (window_)
    window_->copy_columns(window(memory), {places.begin, places.count()}, piece, panel, kRows);
  else if (patches_.by_channels())
    patches_.copy_rows(memory.source, piece, panel, kRowStep);
  else
    patches_.copy_columns(memory.source, piece, panel, kRows);
}

/// Computes a group of tiles for a range of strips from the panels of patches. Tiles are the inner
/// loop, so that writes to a plane of channels are contiguous.
void PatchProduct::run_tiles(const Memory& memory, Range group, int64_t depth, Range strips) const {
  std::array<float*, kMostTilesOfGroup * kRows> cells;
  cells_.list(memory.result, patches_.grid(), group.begin, group.count(), cells.data());
  const Range range = depth_range(depth);
  const OrderOfA order = patches_.by_channels() ? OrderOfA::kByRows : OrderOfA::kByDepth;
  const float* relu = memory.relu && depth + 1 == depths_ ? &*memory.relu : nullptr;
  Tile tile{.vector_step = cells_.vector_step()};
  for (int64_t strip = strips.begin; strip < strips.end; ++strip) {
    const int64_t column = strip * kColumns, offset = cells_.offset_of(column);
    tile.columns = std::min(kColumns, cells_.columns() - column);
    tile.column_offsets = cells_.column_offsets(column);
    PanelOfB panel{memory.panels + (depth * strips_ + strip) * kPanelOfB};
    if (in_place_)
      panel = {memory.weight + range.begin * weight_.channel_step + column, kLanes,
               weight_.channel_step};
    const Start start{.memory = depth > 0,
                      .values = memory.bias == nullptr ? nullptr : memory.bias + column};
    const float* patches = panels_of_patches(memory);
    for (int64_t first = 0; first < group.count(); first += kRows, patches += kPanelOfA) {
      tile.row_count = std::min(kRows, group.count() - first);
      for (int64_t row = 0; row < tile.row_count; ++row)
        tile.rows[static_cast<size_t>(row)] = cells[static_cast<size_t>(first + row)] + offset;
      multiply_tile(order, patches, panel, range.count(), start, tile, relu);
    }
  }
}

}  // namespace poseidon::layers::cpu::product
