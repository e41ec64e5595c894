#include "layers/cpu/bf16_patch_product.h"

#ifdef __AVX512F__

#include <immintrin.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "layers/cpu/bf16_product.h"
#include "layers/cpu/lane_masks.h"
#include "layers/cpu/multiply_add.h"
#include "layers/cpu/portions.h"

namespace poseidon::layers::cpu::product {

namespace {

constexpr int64_t kColumnsOfStrip = 2 * kLanesOfBlock;

/// A group of rows reads the panels of the weight once. Its panel of patches stays in the
/// first-level cache, unless the patches of the least number of rows are larger.
constexpr int64_t kLeastRowsOfGroup = kRowsOfBf16, kMostRowsOfGroup = 4 * kRowsOfBf16;
constexpr int64_t kElementsOfGroup = 12 << 10;

/// The maximum number of rows in a task. Padded cells of a task stay in the second-level cache.
constexpr int64_t kMostRowsOfTask = 1024, kMostRowsOfCells = 4096, kElementsOfCells = 128 << 10;

/// The wanted number of tasks of a thread.
constexpr int64_t kTasksOfThread = 4;

/// The time to copy a vector of channels, and to multiply a unit by a vector of columns, for one
/// row.
constexpr int64_t kTimeOfCopy = 3, kTimeOfUnit = 2;

/// Units of the columns that are adjacent in padded cells.
std::vector<Bf16PatchProduct::Unit> units_of_cells(const PaddedCells& padded) {
  std::vector<Bf16PatchProduct::Unit> units;
  for (const AdjacentColumns& run : padded.adjacent())
    for (int64_t begin = run.begin; begin < run.end; begin += kUnitOfBf16)
      units.push_back({.begin = begin,
                       .end = std::min(begin + kUnitOfBf16, run.end),
                       .offset = run.offset + begin - run.begin});
  return units;
}

}  // namespace

Bf16PatchProduct::Bf16PatchProduct(Patches patches, const PatchWeight& weight,
                                   const PatchResult& result, int64_t threads)
    : patches_(std::move(patches)),
      weight_(weight),
      channels_(result.channels),
      cells_(result),
      strips_(divide_up(cells_.columns(), kColumnsOfStrip)) {
  choose_units();
  for (const Unit& unit : units_) offsets_.push_back(unit.offset);
  depths_ = std::max<int64_t>(1, divide_up(std::ssize(units_), kUnitsOfDepth));
  // An odd number of cache lines, so that rows are in different sets.
  row_step_ = (units_of(0).count() | 1) * kUnitOfBf16;
  rows_of_group_ = padded_ ? kMostRowsOfGroup
                           : std::clamp(kElementsOfGroup / row_step_ / kRowsOfBf16 * kRowsOfBf16,
                                        kLeastRowsOfGroup, kMostRowsOfGroup);
  divide(threads);
}

/// Chooses padded cells if they take less time than copies of patches. They have more rows and may
/// have more units, but each source cell is copied once, not once for each tap.
void Bf16PatchProduct::choose_units() {
  const Patches& patches = patches_.patches();
  const PatchGrid& grid = patches.grid();
  for (int64_t column = 0; column < patches.columns(); column += kUnitOfBf16)
    units_.push_back({.begin = column,
                      .end = std::min(column + kUnitOfBf16, patches.columns()),
                      .offset = kContiguousUnits[units_.size() % kContiguousUnits.size()]});
  if (!PaddedCells::are_legal(patches)) return;
  PaddedCells padded(patches);
  std::vector<Unit> units = units_of_cells(padded);
  const int64_t copy = divide_up(patches.channels(), kLanesOfBlock) * kTimeOfCopy;
  const int64_t copies =
      patches.by_channels() ? copy * std::ssize(grid.taps) : kTimeOfCopy * (std::ssize(units) + 1);
  const int64_t product = divide_up(cells_.columns(), kLanesOfBlock) * kTimeOfUnit;
  if (padded.positions() * (copy + std::ssize(units) * product) >=
      grid.places() * (copies + std::ssize(units_) * product))
    return;
  padded_.emplace(std::move(padded));
  units_ = std::move(units);
}

void Bf16PatchProduct::divide(int64_t threads) {
  const int64_t blocks = divide_up(rows(), kRowsOfBf16);
  const int64_t most =
      padded_ ? std::clamp(kElementsOfCells / padded_->cell(), kMostRowsOfGroup, kMostRowsOfCells)
              : kMostRowsOfTask;
  const int64_t wanted = threads > 1 ? threads * kTasksOfThread : 1;
  ranges_of_rows_ = std::clamp(wanted, divide_up(blocks * kRowsOfBf16, most), blocks);
  ranges_of_strips_ = std::min(strips_, divide_up(wanted, ranges_of_rows_));
}

Bf16PatchProduct::Range Bf16PatchProduct::units_of(int64_t depth) const {
  const int64_t begin = depth * kUnitsOfDepth;
  return {begin, std::min<int64_t>(begin + kUnitsOfDepth, std::ssize(units_))};
}

/// The maximum number of rows in a task.
int64_t Bf16PatchProduct::rows_of_task() const {
  return divide_up(divide_up(rows(), kRowsOfBf16), ranges_of_rows_) * kRowsOfBf16;
}

/// Elements of a panel of patches.
int64_t Bf16PatchProduct::patch_elements() const {
  return padded_ ? 0 : std::min(rows_of_group_, rows_of_task()) * row_step_;
}

/// Sums of all strips if the sums of several depths are added, else of one.
int64_t Bf16PatchProduct::sum_floats() const {
  const int64_t strips = depths_ > 1 ? divide_up(strips_, ranges_of_strips_) : 1;
  return strips * std::min(rows_of_group_, rows_of_task()) * kColumnsOfStrip;
}

int64_t Bf16PatchProduct::scratch_bytes() const {
  const int64_t window =
      padded_ ? padded_->elements(rows_of_task()) : patches_.elements(rows_of_task());
  return round_up((patch_elements() + window) * 2, 64) + sum_floats() * 4;
}

Bf16PatchProduct::Room Bf16PatchProduct::room(std::byte* scratch) const {
  auto* sums = reinterpret_cast<float*>(scratch);
  auto* patches = reinterpret_cast<Bf16*>(sums + sum_floats());
  return {.sums = sums, .patches = patches, .window = patches + patch_elements()};
}

void Bf16PatchProduct::pack_weight(int64_t panel, const float* weight, Bf16* panels) const {
  const Range units = units_of(panel / strips_);
  Bf16* to = panels + panel * kPanelOfWeight;
  for (int64_t v = 0; v < kVectorsOfStrip; ++v, to += kVectorOfWeight) {
    const int64_t first = panel % strips_ * kColumnsOfStrip + v * kLanesOfBlock;
    for (int64_t u = units.begin; u < units.end; ++u) {
      const Unit& unit = units_[static_cast<size_t>(u)];
      alignas(64) std::array<float, static_cast<size_t>(kUnitOfBf16 * kLanesOfBlock)> rows;
      copy_weight(weight_, patches_.patches(), weight,
                  {.begin = unit.begin,
                   .end = unit.end,
                   .result = first,
                   .lanes = std::clamp<int64_t>(channels_ - first, 0, kLanesOfBlock)},
                  rows.data());
      interleave_rounded(rows.data(), unit.end - unit.begin,
                         to + (u - units.begin) * kUnitOfBf16 * kLanesOfBlock);
    }
  }
}

void Bf16PatchProduct::run(int64_t index, const Memory& memory) const {
  const int64_t blocks = divide_up(rows(), kRowsOfBf16);
  const int64_t range = index % ranges_of_rows_, part = index / ranges_of_rows_;
  const Range task{blocks * range / ranges_of_rows_ * kRowsOfBf16,
                   std::min(blocks * (range + 1) / ranges_of_rows_ * kRowsOfBf16, rows())};
  const Range strips{strips_ * part / ranges_of_strips_, strips_ * (part + 1) / ranges_of_strips_};
  const Room own = room(memory.scratch);
  const Bf16Multiplier multiplier;
  Bf16Patches::Source source{memory.source, {task.begin, task.count()}, own.window};
  if (padded_)
    padded_->copy(memory.source, task.begin, task.count(), own.window);
  else
    source = patches_.source(memory.source, source.range, own.window);
  for (int64_t row = task.begin; row < task.end; row += rows_of_group_)
    run_group(memory, source, {row, std::min(row + rows_of_group_, task.end)}, strips, own,
              multiplier);
}

/// Lists the addresses of the results of a group of rows; nullptr: the row is not of a place.
void Bf16PatchProduct::list_cells(Range group, Bf16* result, Bf16** cells) const {
  const PatchGrid& grid = patches_.patches().grid();
  if (!padded_) return cells_.list(result, grid, group.begin, group.count(), cells);
  for (int64_t row = group.begin; row < group.end;) {
    const PaddedCells::Run run = padded_->run_at(row);
    const int64_t count = std::min(run.count, group.end - row);
    if (run.place < 0)
      std::fill_n(cells, count, nullptr);
    else
      cells_.list(result, grid, run.place, count, cells);
    cells += count;
    row += count;
  }
}

/// The operand A of a group of rows. Copies patches, unless padded cells are used.
Bf16Rows Bf16PatchProduct::copy_patches(const Bf16Patches::Source& source, Range group, Range units,
                                        const Room& room) const {
  const int64_t* offsets = offsets_.data() + units.begin;
  if (padded_)
    return {room.window + (group.begin - source.range.place) * padded_->cell(), padded_->cell(),
            offsets};
  if (units.count() == 0) return {room.patches, row_step_, offsets};
  const int64_t first = units_[static_cast<size_t>(units.begin)].begin;
  const int64_t last = units_[static_cast<size_t>(units.end - 1)].end;
  patches_.copy_rows(
      source,
      {.place = group.begin, .places = group.count(), .column = first, .columns = last - first},
      units.count() * kUnitOfBf16, room.patches, row_step_);
  return {room.patches, row_step_, offsets};
}

void Bf16PatchProduct::run_group(const Memory& memory, const Bf16Patches::Source& source,
                                 Range group, Range strips, const Room& room,
                                 const Bf16Multiplier& multiplier) const {
  const int64_t sums_of_strip = round_up(group.count(), kRowsOfBf16) * kColumnsOfStrip;
  std::array<Bf16*, kMostRowsOfGroup> cells;
  list_cells(group, memory.result, cells.data());
  for (int64_t depth = 0; depth < depths_; ++depth) {
    const Range units = units_of(depth);
    const Bf16Rows patches = copy_patches(source, group, units, room);
    for (int64_t strip = strips.begin; strip < strips.end; ++strip) {
      const Bf16Panel weight{memory.panels + (depth * strips_ + strip) * kPanelOfWeight,
                             kVectorOfWeight};
      const int64_t vectors = divide_up(
          std::min(kColumnsOfStrip, cells_.columns() - strip * kColumnsOfStrip), kLanesOfBlock);
      float* sums = room.sums + (depths_ > 1 ? (strip - strips.begin) * sums_of_strip : 0);
      for (int64_t row = 0; row < group.count(); row += kRowsOfBf16)
        multiplier.multiply({patches.data + row * patches.step, patches.step, patches.offsets},
                            std::min(kRowsOfBf16, group.count() - row), weight, vectors,
                            units.count(),
                            {sums + row * kColumnsOfStrip, kColumnsOfStrip, depth > 0});
      if (depth + 1 == depths_)
        store_strip(memory, std::span(cells).first(static_cast<size_t>(group.count())), strip,
                    sums);
    }
  }
}

/// Adds the bias to the sums of a strip, applies the relu, and stores the results in `cells`.
void Bf16PatchProduct::store_strip(const Memory& memory, std::span<Bf16* const> cells,
                                   int64_t strip, const float* sums) const {
  const int64_t first = strip * kColumnsOfStrip;
  const int64_t columns = std::min(kColumnsOfStrip, cells_.columns() - first);
  const float slope = memory.relu.value_or(1.0F);  // a slope of 1 changes nothing
  for (int64_t v = 0; v * kLanesOfBlock < columns; ++v, sums += kLanesOfBlock) {
    const int64_t column = first + v * kLanesOfBlock;
    const int64_t lanes = std::min<int64_t>(kLanesOfBlock, columns - v * kLanesOfBlock);
    const auto bias =
        memory.bias == nullptr ? VectorOfBlock{} : load<VectorOfBlock>(memory.bias + column);
    const int64_t* offsets = cells_.column_offsets(column);
    const int64_t offset = cells_.offset_of(first) + v * cells_.vector_step();
    const auto store_rows = [&](const auto& store_row) {
      const float* row = sums;
      for (Bf16* cell : cells) {
        if (cell != nullptr) store_row(cell, leaky_relu(load<VectorOfBlock>(row) + bias, slope));
        row += kColumnsOfStrip;
      }
    };
    if (offsets == nullptr && lanes == kLanesOfBlock)
      store_rows([&](Bf16* cell, const VectorOfBlock& value) { store(cell + offset, value); });
    else
      store_rows([&](Bf16* cell, const VectorOfBlock& value) {
        alignas(32) std::array<Bf16, kLanesOfBlock> rounded;
        store(rounded.data(), value);
        for (int64_t lane = 0; lane < lanes; ++lane)
          cell[offsets == nullptr ? offset + lane : cells_.offset_of(first) + offsets[lane]] =
              rounded[static_cast<size_t>(lane)];
      });
  }
}

}  // namespace poseidon::layers::cpu::product

#endif
