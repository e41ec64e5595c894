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

/// A group of places reads the panels of the weight once. Its panel of patches stays in the
/// first-level cache, unless the patches of the least number of places are larger.
constexpr int64_t kLeastPlacesOfGroup = kRowsOfBf16, kMostPlacesOfGroup = 4 * kRowsOfBf16;
constexpr int64_t kElementsOfGroup = 12 << 10;

/// The maximum number of places in a task. They share a window.
constexpr int64_t kMostPlacesOfTask = 1024;

/// The wanted number of tasks of a thread.
constexpr int64_t kTasksOfThread = 4;

int64_t rounded_up(int64_t count, int64_t unit) { return divide_up(count, unit) * unit; }

}  // namespace

Bf16PatchProduct::Bf16PatchProduct(Patches patches, const PatchWeight& weight,
                                   const PatchResult& result, int64_t threads)
    : patches_(std::move(patches)),
      weight_(weight),
      channels_(result.channels),
      cells_(result),
      depths_(std::max<int64_t>(1, divide_up(patches_.patches().columns(), kDepthOfWeight))),
      strips_(divide_up(cells_.columns(), kColumnsOfStrip)),
      // An odd number of cache lines, so that rows are in different sets.
      row_step_((divide_up(depth_range(0).count(), kUnitOfBf16) | 1) * kUnitOfBf16) {
  places_of_group_ = std::clamp(kElementsOfGroup / row_step_ / kRowsOfBf16 * kRowsOfBf16,
                                kLeastPlacesOfGroup, kMostPlacesOfGroup);
  divide(threads);
}

void Bf16PatchProduct::divide(int64_t threads) {
  const int64_t places = patches_.patches().places();
  const int64_t blocks = divide_up(places, kRowsOfBf16);
  const int64_t most = kMostPlacesOfTask / kRowsOfBf16;
  const int64_t wanted = threads > 1 ? threads * kTasksOfThread : 1;
  ranges_of_places_ = std::clamp(wanted, divide_up(blocks, most), blocks);
  ranges_of_strips_ = std::min(strips_, divide_up(wanted, ranges_of_places_));
}

Bf16PatchProduct::Range Bf16PatchProduct::depth_range(int64_t depth) const {
  const int64_t begin = depth * kDepthOfWeight;
  return {begin, std::min(begin + kDepthOfWeight, patches_.patches().columns())};
}

/// The maximum number of places in a task.
int64_t Bf16PatchProduct::places_of_task() const {
  const int64_t blocks = divide_up(patches_.patches().places(), kRowsOfBf16);
  return divide_up(blocks, ranges_of_places_) * kRowsOfBf16;
}

int64_t Bf16PatchProduct::patch_elements() const {
  return std::min(places_of_group_, places_of_task()) * row_step_;
}

/// Sums of all strips if the sums of several depths are added, else of one.
int64_t Bf16PatchProduct::sum_floats() const {
  const int64_t strips = depths_ > 1 ? divide_up(strips_, ranges_of_strips_) : 1;
  return strips * std::min(places_of_group_, places_of_task()) * kColumnsOfStrip;
}

int64_t Bf16PatchProduct::scratch_bytes() const {
  const int64_t elements = patch_elements() + patches_.elements(places_of_task());
  return rounded_up(elements * 2, 64) + sum_floats() * 4;
}

Bf16PatchProduct::Room Bf16PatchProduct::room(std::byte* scratch) const {
  auto* sums = reinterpret_cast<float*>(scratch);
  auto* patches = reinterpret_cast<Bf16*>(sums + sum_floats());
  return {.patches = patches, .sums = sums, .window = patches + patch_elements()};
}

void Bf16PatchProduct::pack_weight(int64_t panel, const float* weight, Bf16* panels) const {
  const Range depth = depth_range(panel / strips_);
  Bf16* to = panels + panel * kPanelOfWeight;
  for (int64_t v = 0; v < kVectorsOfStrip; ++v, to += kDepthOfWeight * kLanesOfBlock) {
    alignas(64) std::array<float, static_cast<size_t>(kDepthOfWeight * kLanesOfBlock)> rows;
    const int64_t first = panel % strips_ * kColumnsOfStrip + v * kLanesOfBlock;
    copy_weight(weight_, patches_.patches(), weight,
                {.begin = depth.begin,
                 .end = depth.end,
                 .result = first,
                 .lanes = std::clamp<int64_t>(channels_ - first, 0, kLanesOfBlock)},
                rows.data());
    interleave_rounded(rows.data(), depth.count(), to);
  }
}

void Bf16PatchProduct::run(int64_t index, const Memory& memory) const {
  const int64_t places = patches_.patches().places(), blocks = divide_up(places, kRowsOfBf16);
  const int64_t range = index % ranges_of_places_, part = index / ranges_of_places_;
  const Range task{blocks * range / ranges_of_places_ * kRowsOfBf16,
                   std::min(blocks * (range + 1) / ranges_of_places_ * kRowsOfBf16, places)};
  const Range strips{strips_ * part / ranges_of_strips_, strips_ * (part + 1) / ranges_of_strips_};
  const Room own = room(memory.scratch);
  const Bf16Multiplier multiplier;
  const Bf16Patches::Source source =
      patches_.source(memory.source, {task.begin, task.count()}, own.window);
  for (int64_t place = task.begin; place < task.end; place += places_of_group_)
    run_group(memory, source, {place, std::min(place + places_of_group_, task.end)}, strips, own,
              multiplier);
}

void Bf16PatchProduct::run_group(const Memory& memory, const Bf16Patches::Source& source,
                                 Range group, Range strips, const Room& room,
                                 const Bf16Multiplier& multiplier) const {
  const int64_t sums_of_strip = rounded_up(group.count(), kRowsOfBf16) * kColumnsOfStrip;
  std::array<Bf16*, kMostPlacesOfGroup> cells;
  cells_.list(memory.result, patches_.patches().grid(), group.begin, group.count(), cells.data());
  for (int64_t depth = 0; depth < depths_; ++depth) {
    const Range columns = depth_range(depth);
    const int64_t padded = rounded_up(columns.count(), kUnitOfBf16);
    patches_.copy_rows(source,
                       {.place = group.begin,
                        .places = group.count(),
                        .column = columns.begin,
                        .columns = columns.count()},
                       padded, room.patches, row_step_);
    for (int64_t strip = strips.begin; strip < strips.end; ++strip) {
      const Bf16Panel weight{memory.panels + (depth * strips_ + strip) * kPanelOfWeight,
                             kDepthOfWeight * kLanesOfBlock};
      const int64_t vectors = divide_up(
          std::min(kColumnsOfStrip, cells_.columns() - strip * kColumnsOfStrip), kLanesOfBlock);
      float* sums = room.sums + (depths_ > 1 ? (strip - strips.begin) * sums_of_strip : 0);
      for (int64_t row = 0; row < group.count(); row += kRowsOfBf16)
        multiplier.multiply({room.patches + row * row_step_, row_step_},
                            std::min(kRowsOfBf16, group.count() - row), weight, vectors, padded,
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
        store_row(cell, leaky_relu(load<VectorOfBlock>(row) + bias, slope));
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
