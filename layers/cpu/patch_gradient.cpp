#include "layers/cpu/patch_gradient.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "layers/cpu/product.h"

namespace poseidon::layers::cpu::product {

namespace {

/// Strips of columns, and tiles of rows, that a task computes.
constexpr int64_t kMostStrips = 4, kFewTiles = 4, kManyTiles = 16;
constexpr int64_t kColumnsOfTask = kMostStrips * kColumns;
/// Copying the output's gradient takes about as long as computing this many rows.
constexpr int64_t kRowsOfCopy = 8;

/// Enough tasks for a few dozen threads. Only more than kPlacesOfSlice places are divided.
constexpr int64_t kTasksWanted = 64, kPlacesOfSlice = 1024;

/// Panels in place do not cross samples. In samples with fewer cells they would not be deep enough.
constexpr int64_t kCellsInPlace = 128;

/// The number of ranges of tiles with the least time, if each range has `others` tasks.
int64_t fastest_ranges(int64_t tiles, int64_t others, int64_t threads) {
  int64_t fastest = 1, least = std::numeric_limits<int64_t>::max();
  for (int64_t most = std::min(kManyTiles, tiles); most >= std::min(kFewTiles, tiles); --most) {
    const int64_t ranges = pieces(tiles, most);
    const int64_t time =
        pieces(ranges * others, threads) * (pieces(tiles, ranges) * kRows + kRowsOfCopy);
    if (time >= least) continue;
    least = time;
    fastest = ranges;
  }
  return fastest;
}

/// Copies gradients to a panel of B, for kColumns outputs from `column` on.
void copy_gradients(const Patches& gradients, const float* gradient, int64_t place, int64_t depth,
                    int64_t column, float* panel) {
  for (int64_t v = 0; v < kVectors; ++v, column += kLanes, panel += kDepth * kLanes) {
    const int64_t lanes = std::min(kLanes, gradients.columns() - column);
    if (lanes <= 0) return;
    const Patches::Piece piece{.place = place, .places = depth, .column = column, .columns = lanes};
    if (gradients.by_channels()) {
      gradients.copy_rows(gradient, piece, panel, kLanes);
      continue;
    }
    alignas(64) std::array<float, static_cast<size_t>(kLanes * kDepth)> by_lanes;
    gradients.copy_columns(gradient, piece, by_lanes.data(), kDepth);
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t lane = 0; lane < lanes; ++lane)
        panel[k * kLanes + lane] = by_lanes[static_cast<size_t>(lane * kDepth + k)];
  }
}

}  // namespace

PatchGradient::PatchGradient(std::vector<Patches> inputs, std::vector<Patches> gradients, Sums sums,
                             int64_t threads)
    : inputs_(std::move(inputs)),
      gradients_(std::move(gradients)),
      area_(gradients_[0].grid().height * gradients_[0].grid().width),
      in_place_(area_ >= kCellsInPlace && std::ranges::all_of(gradients_, [](const Patches& each) {
                  return each.has_blocks(kLanes);
                })) {
  divide(sums, threads);
  if (inputs_[0].by_channels()) return;
  for (const Patches& each : inputs_) {
    PatchWindow window(each.grid(), each.source(), each.first_channel(), each.channels());
    if (window.is_small(kDepth)) windows_.push_back(std::move(window));
  }
}

/// The panels of the output's gradient, a panel of patches, then a window.
int64_t PatchGradient::scratch_bytes() const {
  const int64_t window = windows_.empty() ? 0 : pieces(windows_[0].floats(kDepth), kLanes) * kLanes;
  return (kMostStrips * kPanelOfB + kPanelOfA + window) * 4;
}

/// The number of slices does not depend on `threads`, because it changes the bits.
void PatchGradient::divide(Sums sums, int64_t threads) {
  const int64_t groups = static_cast<int64_t>(inputs_.size()), rows = inputs_[0].columns();
  const int64_t tiles = pieces(rows, kRows);
  const int64_t columns = groups * pieces(outputs(), kColumnsOfTask);
  if (sums == Sums::kOfSlices)
    slices_ = std::clamp<int64_t>(pieces(kTasksWanted, columns * pieces(tiles, kFewTiles)), 1,
                                  pieces(inputs_[0].places(), kPlacesOfSlice));
  const int64_t ranges = fastest_ranges(tiles, columns * slices_, threads);
  for (int64_t slice = 0; slice < slices_; ++slice)
    for (size_t group = 0; group < inputs_.size(); ++group)
      for (int64_t column = 0; column < outputs(); column += kColumnsOfTask)
        for (int64_t range = 0; range < ranges; ++range)
          tasks_.push_back({.group = group,
                            .first_row = tiles * range / ranges * kRows,
                            .last_row = std::min(tiles * (range + 1) / ranges * kRows, rows),
                            .column = column,
                            .slice = slice});
}

/// Divides the places of a slice into panels of equal depth.
void PatchGradient::run(int64_t index, const Memory& memory) const {
  const Task& task = tasks_[static_cast<size_t>(index)];
  const int64_t places = inputs_[0].places();
  const int64_t first = places * task.slice / slices_, end = places * (task.slice + 1) / slices_;
  for (int64_t begin = first, next = end; begin < end; begin = next) {
    if (in_place_) next = std::min(end, (begin / area_ + 1) * area_);
    const int64_t count = pieces(next - begin, kDepth);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t place = begin + (next - begin) * i / count;
      const int64_t depth = begin + (next - begin) * (i + 1) / count - place;
      run_depth(task, {.place = place, .count = depth, .is_first = place == first}, memory);
    }
  }
}

void PatchGradient::run_depth(const Task& task, const Depth& depth, const Memory& memory) const {
  const Patches &inputs = inputs_[task.group], &gradients = gradients_[task.group];
  std::array<PanelOfB, kMostStrips> panels;
  auto* scratch = reinterpret_cast<float*>(memory.scratch);
  const int64_t last_column = std::min(task.column + kColumnsOfTask, outputs());
  const int64_t strips = pieces(last_column - task.column, kColumns);
  for (int64_t strip = 0; strip < strips; ++strip) {
    const int64_t column = task.column + strip * kColumns;
    PanelOfB& panel = panels[static_cast<size_t>(strip)];
    if (in_place_) {
      panel = {gradients.block_at(memory.gradient, depth.place, column), area_ * kLanes};
      continue;
    }
    float* copy = scratch + strip * kPanelOfB;
    copy_gradients(gradients, memory.gradient, depth.place, depth.count, column, copy);
    panel = {copy};
  }
  float* panel_of_a = scratch + kMostStrips * kPanelOfB;
  if (!windows_.empty())
    windows_[task.group].fill(memory.input, {depth.place, depth.count}, panel_of_a + kPanelOfA);
  float* weight = memory.slices[task.slice] + static_cast<int64_t>(task.group) * outputs();
  for (int64_t row = task.first_row; row < task.last_row; row += kRows) {
    copy_inputs(task, depth, row, memory, panel_of_a);
    for (int64_t strip = 0; strip < strips; ++strip) {
      const int64_t column = task.column + strip * kColumns;
      multiply_tile(inputs.by_channels() ? OrderOfA::kByDepth : OrderOfA::kByRows, panel_of_a,
                    panels[static_cast<size_t>(strip)], depth.count, {.memory = !depth.is_first},
                    Tile::evenly(weight + row * all_outputs() + column, all_outputs(),
                                 inputs.columns() - row, outputs() - column));
    }
  }
}

void PatchGradient::copy_inputs(const Task& task, const Depth& depth, int64_t row,
                                const Memory& memory, float* panel) const {
  const Patches& inputs = inputs_[task.group];
  const Patches::Piece piece{.place = depth.place,
                             .places = depth.count,
                             .column = row,
                             .columns = std::min(kRows, inputs.columns() - row)};
  if (inputs.by_channels())
    inputs.copy_rows(memory.input, piece, panel, kRows);
  else if (windows_.empty())
    inputs.copy_columns(memory.input, piece, panel, kRowStep);
  else
    windows_[task.group].copy_columns(panel + kPanelOfA, {depth.place, depth.count}, piece, panel,
                                      kRowStep);
}

}  // namespace poseidon::layers::cpu::product
