#include "layers/cpu/bf16_patch_gradient.h"

#ifdef __AVX512F__

#include <algorithm>
#include <utility>

#include "layers/cpu/bf16_product.h"
#include "layers/cpu/lane_masks.h"
#include "layers/cpu/portions.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu::product {

namespace {

constexpr int64_t kLanesOfGradient = kLanesOfBlock;
constexpr int64_t kStripOfGradient = 2 * kLanesOfGradient;  ///< rows of a strip

/// Positions of a panel. Rows of gradients have an odd number of cache lines, so that they are in
/// different sets.
constexpr int64_t kDepthOfPanel = 256, kGradientStep = kDepthOfPanel + kUnitOfBf16;
/// Elements from one vector of a panel of B to the next.
constexpr int64_t kStepOfPanel = kDepthOfPanel * kLanesOfGradient;

/// Outputs of a task. The sums of a task stay in the second-level cache.
constexpr int64_t kMostOutputs = 256, kMostSums = 128 << 10;

/// Enough tasks for a few dozen threads. Only more than kPositionsOfSlice positions are divided.
constexpr int64_t kWantedTasks = 64, kPositionsOfSlice = 2048, kStripsPerTask = 4;

/// The time to copy a vector of channels of a position to a panel, and to multiply it by
/// kLanesOfGradient outputs.
constexpr int64_t kTimeOfPanel = 4, kTimeOfProduct = 2;
/// The time to copy a vector of channels of a padded cell, and its pairs, or the pairs alone.
constexpr int64_t kTimeOfCells = 5, kTimeOfPairs = 3;

/// Fills a panel of B with a first column of ones. The other columns are zero.
void fill_ones(Bf16* panel) {
  std::fill_n(panel, kStepOfPanel, Bf16{});
  for (int64_t pair = 0; pair < kDepthOfPanel / 2; ++pair)
    std::fill_n(panel + pair * 2 * kLanesOfGradient, 2, Bf16{1.0F});
}

std::vector<Bf16Patches> rows_of(std::vector<Patches> patches) {
  std::vector<Bf16Patches> rows;
  for (Patches& each : patches) rows.emplace_back(std::move(each));
  return rows;
}

}  // namespace

Bf16PatchGradient::Bf16PatchGradient(std::vector<Patches> inputs, std::vector<Patches> gradients,
                                     int64_t together, bool bias, int64_t threads)
    : inputs_(rows_of(std::move(inputs))),
      gradients_(rows_of(std::move(gradients))),
      together_(together),
      bias_(bias) {
  choose_strips();
  divide(threads);
}

/// Chooses pairs of padded cells if they take less time than panels of patches. There are more
/// positions than places and the strips may have fewer columns, but each cell is copied once for
/// each vector of adjacent columns, not once for each tap.
void Bf16PatchGradient::choose_strips() {
  const Patches& patches = inputs_[0].patches();
  for (int64_t row = 0; row < rows(); row += kStripOfGradient)
    strips_.push_back({.begin = row, .end = std::min(row + kStripOfGradient, rows())});
  if (!PaddedCells::are_legal(patches)) return;
  const CellPairs pairs{PaddedCells(patches)};
  int64_t vectors = 0;
  for (const PatchStrip& strip : pairs.strips()) vectors += strip.vectors();
  const int64_t product = divide_up(outputs(), kLanesOfGradient) * kTimeOfProduct;
  const int64_t copy = patches.by_channels() ? kTimeOfCells : kTimeOfPairs;
  const int64_t block = pairs.positions_of_block();
  const int64_t of_cells =
      pairs.vectors() * copy * (block + pairs.padded().reach()) / block + vectors * product;
  const int64_t copies = patches.by_channels() ? std::ssize(patches.grid().taps) *
                                                     divide_up(patches.channels(), kLanesOfGradient)
                                               : vectors;
  const int64_t of_patches =
      copies * kTimeOfPanel + divide_up(patches.columns(), kLanesOfGradient) * product;
  if (pairs.padded().positions() * of_cells >= patches.places() * of_patches) return;
  for (const Bf16Patches& each : inputs_) pairs_.emplace_back(PaddedCells(each.patches()));
  strips_ = pairs.strips();
  if (bias_) strips_.push_back({.begin = columns(), .end = rows()});
}

/// The number of slices does not depend on `threads`, because it changes the bits.
void Bf16PatchGradient::divide(int64_t threads) {
  const int64_t strips = std::ssize(strips_);
  const int64_t others = static_cast<int64_t>(inputs_.size()) * divide_up(outputs(), kMostOutputs);
  slices_ = std::clamp<int64_t>(divide_up(kWantedTasks, others * divide_up(strips, kStripsPerTask)),
                                1, divide_up(positions(), kPositionsOfSlice));
  const int64_t fitting = std::max<int64_t>(1, kMostSums / (outputs_of_task() * kStripOfGradient));
  const int64_t wanted = threads > 1 ? divide_up(4 * threads, others * slices_) : 1;
  const int64_t ranges = std::clamp(wanted, divide_up(strips, fitting), strips);
  strips_of_task_ = divide_up(strips, ranges);
  for (int64_t slice = 0; slice < slices_; ++slice)
    for (size_t group = 0; group < inputs_.size(); ++group)
      for (int64_t output = 0; output < outputs(); output += kMostOutputs)
        for (int64_t range = 0; range < ranges; ++range)
          tasks_.push_back({.group = group,
                            .first_strip = strips * range / ranges,
                            .last_strip = strips * (range + 1) / ranges,
                            .output = output,
                            .slice = slice});
}

/// The maximum number of outputs in a task, padded to whole blocks of sums.
int64_t Bf16PatchGradient::outputs_of_task() const {
  return round_up(std::min(kMostOutputs, outputs()), kRowsOfBf16);
}

int64_t Bf16PatchGradient::outputs_of(const Task& task) const {
  return std::min(kMostOutputs, outputs() - task.output);
}

int64_t Bf16PatchGradient::sum_floats() const {
  return strips_of_task_ * outputs_of_task() * kStripOfGradient;
}

Bf16PatchGradient::Room Bf16PatchGradient::room(std::byte* scratch) const {
  Room room{};
  room.sums = reinterpret_cast<float*>(scratch);
  room.gradients = reinterpret_cast<Bf16*>(room.sums + sum_floats());
  room.rows = room.gradients + outputs_of_task() * kGradientStep;
  room.panel = room.rows + kDepthOfPanel * kStripOfGradient;
  room.window = room.panel + kDepthOfPanel * kStripOfGradient;
  return room;
}

int64_t Bf16PatchGradient::scratch_bytes() const {
  const int64_t input = pairs_.empty() ? inputs_[0].elements(kDepthOfPanel) : pairs_[0].elements();
  const int64_t elements = outputs_of_task() * kGradientStep +
                           2 * kDepthOfPanel * kStripOfGradient + gradient_elements() + input;
  return sum_floats() * 4 + round_up(elements * 2, 64);
}

/// Elements of a window of the output's gradient.
int64_t Bf16PatchGradient::gradient_elements() const {
  return round_up(gradients_[0].elements(kDepthOfPanel), kUnitOfBf16);
}

/// Divides the positions of a slice into blocks, and each block into panels of about equal depth.
void Bf16PatchGradient::run(int64_t index, const Memory& memory) const {
  const Task& task = tasks_[static_cast<size_t>(index)];
  const int64_t first = positions() * task.slice / slices_;
  const int64_t end = positions() * (task.slice + 1) / slices_;
  const Room own = room(memory.scratch);
  const Bf16Multiplier multiplier;
  if (!pairs_.empty() && bias_) fill_ones(own.panel);
  for (int64_t block = first, all = 0; block < end; block += all) {
    all = end - block;
    if (!pairs_.empty()) {
      const CellPairs& pairs = pairs_[task.group];
      all = std::min(all, pairs.positions_of_block());
      pairs.copy(memory.input, {block, all}, own.window + gradient_elements());
    }
    const int64_t depths = divide_up(all, kDepthOfPanel);
    for (int64_t i = 0; i < depths; ++i) {
      const int64_t begin = all * i / depths;
      run_depth(task,
                {.block = block,
                 .position = block + begin,
                 .count = all * (i + 1) / depths - begin,
                 .is_first = block == first && i == 0},
                memory, own, multiplier);
    }
  }
  store_sums(task, own.sums, memory.slices[task.slice]);
}

void Bf16PatchGradient::run_depth(const Task& task, const Depth& depth, const Memory& memory,
                                  const Room& room, const Bf16Multiplier& multiplier) const {
  transpose_gradients(task, depth, memory, room);
  Bf16Patches::Source source{};
  if (pairs_.empty())
    source = inputs_[task.group].source(memory.input, {depth.position, depth.count},
                                        room.window + gradient_elements());
  const int64_t units = divide_up(depth.count, kUnitOfBf16), outputs = outputs_of(task);
  float* sums = room.sums;
  for (int64_t s = task.first_strip; s < task.last_strip; ++s) {
    const PatchStrip& strip = strips_[static_cast<size_t>(s)];
    const Bf16Panel panel = panel_of(task, depth, strip, source, room);
    for (int64_t row = 0; row < outputs; row += kRowsOfBf16)
      multiplier.multiply(
          {room.gradients + row * kGradientStep, kGradientStep, kContiguousUnits.data()},
          std::min(kRowsOfBf16, outputs - row), panel, strip.vectors(), units,
          {sums + row * kStripOfGradient, kStripOfGradient, !depth.is_first});
    sums += outputs_of_task() * kStripOfGradient;
  }
}

void Bf16PatchGradient::transpose_gradients(const Task& task, const Depth& depth,
                                            const Memory& memory, const Room& room) const {
  const Bf16Patches& gradients = gradients_[task.group];
  PlaceRange places{depth.position, depth.count};
  if (!pairs_.empty()) places = pairs_[task.group].padded().places_of(depth.position, depth.count);
  const Bf16Patches::Source source = gradients.source(memory.gradient, places, room.window);
  const int64_t padded = round_up(depth.count, kUnitOfBf16), outputs = outputs_of(task);
  for (int64_t row = 0; row < outputs; row += kLanesOfGradient) {
    copy_gradients(task, depth, row, source, room.rows);
    std::fill_n(room.rows + depth.count * kLanesOfGradient,
                (padded - depth.count) * kLanesOfGradient, Bf16{});
    transpose_bf16(room.rows, padded, room.gradients + row * kGradientStep, kGradientStep);
  }
}

/// Copies the gradients of kLanesOfGradient outputs, from `row` on, as [position][output].
/// Positions of no place become zero.
void Bf16PatchGradient::copy_gradients(const Task& task, const Depth& depth, int64_t row,
                                       const Bf16Patches::Source& source, Bf16* to) const {
  const auto copy = [&](int64_t place, int64_t places) {
    gradients_[task.group].copy_rows(
        source,
        {.place = place,
         .places = places,
         .column = task.output + row,
         .columns = std::min(kLanesOfGradient, outputs_of(task) - row)},
        kLanesOfGradient, to, kLanesOfGradient);
  };
  if (pairs_.empty()) return copy(depth.position, depth.count);
  for (int64_t done = 0; done < depth.count;) {
    const PaddedCells::Run run = pairs_[task.group].padded().run_at(depth.position + done);
    const int64_t count = std::min(run.count, depth.count - done);
    if (run.place < 0)
      std::fill_n(to, count * kLanesOfGradient, Bf16{});
    else
      copy(run.place, count);
    to += count * kLanesOfGradient;
    done += count;
  }
}

/// The panel of B of a strip.
Bf16Panel Bf16PatchGradient::panel_of(const Task& task, const Depth& depth, const PatchStrip& strip,
                                      const Bf16Patches::Source& source, const Room& room) const {
  const bool has_bias = strip.end > columns();
  if (!pairs_.empty())
    return has_bias ? Bf16Panel{room.panel, kStepOfPanel}
                    : pairs_[task.group].panel(room.window + gradient_elements(),
                                               depth.position - depth.block, strip);
  const int64_t count = std::min(strip.end, columns()) - strip.begin;
  const int64_t padded = round_up(depth.count, kUnitOfBf16);
  inputs_[task.group].copy_rows(
      source,
      {.place = depth.position, .places = depth.count, .column = strip.begin, .columns = count},
      kStripOfGradient, room.rows, kStripOfGradient);
  std::fill_n(room.rows + depth.count * kStripOfGradient, (padded - depth.count) * kStripOfGradient,
              Bf16{});
  if (has_bias)
    for (int64_t position = 0; position < depth.count; ++position)
      room.rows[position * kStripOfGradient + count] = 1.0F;
  for (int64_t position = 0; position < padded; position += 2)
    for (int64_t v = 0; v < strip.vectors(); ++v) {
      const Bf16* row = room.rows + position * kStripOfGradient + v * kLanesOfGradient;
      interleave(row, row + kStripOfGradient,
                 room.panel + v * kStepOfPanel + position * kLanesOfGradient);
    }
  return {room.panel, kStepOfPanel};
}

/// The row of the weight, or of the bias, for a row of the product.
int64_t Bf16PatchGradient::row_of_weight(int64_t row) const {
  const int64_t channels = inputs_[0].patches().channels(), of_group = channels / together_;
  return row / channels * of_group + (row < columns() ? row % of_group : 0);
}

/// The outputs of the group of a row of the product. The other elements of the row are not of the
/// weight.
Bf16PatchGradient::Range Bf16PatchGradient::outputs_of_row(int64_t row) const {
  if (row == columns()) return {0, outputs()};
  const int64_t channels = inputs_[0].patches().channels(), of_group = outputs() / together_;
  const int64_t group = row % channels / (channels / together_);
  return {group * of_group, (group + 1) * of_group};
}

/// Transposes the sums to the order of the weight.
void Bf16PatchGradient::store_sums(const Task& task, const float* sums, float* gradient) const {
  gradient += static_cast<int64_t>(task.group) * outputs() + task.output;
  const int64_t outputs = outputs_of(task);
  for (int64_t s = task.first_strip; s < task.last_strip; ++s) {
    const PatchStrip& strip = strips_[static_cast<size_t>(s)];
    for (int64_t v = 0; v < strip.vectors(); ++v)
      for (int64_t output = 0; output < outputs; output += kLanesOfGradient) {
        VectorOfBlock square[kLanesOfBlock];
        const float* from = sums + output * kStripOfGradient + v * kLanesOfGradient;
#pragma GCC unroll 16
        for (int64_t lane = 0; lane < kLanesOfGradient; ++lane)
          square[lane] = load<VectorOfBlock>(from + lane * kStripOfGradient);
        transpose_square(square);
        const int64_t row = strip.begin + v * kLanesOfGradient;
        const int64_t count = std::min(kLanesOfGradient, strip.end - row);
        for (int64_t i = 0; i < count; ++i) {
          const Range group = outputs_of_row(row + i);
          const int64_t first = group.begin - task.output - output;
          const int64_t end = std::min(group.end - task.output, outputs) - output;
          const LaneMask lanes = lanes_between(std::clamp<int64_t>(first, 0, kLanesOfGradient),
                                               std::clamp<int64_t>(end, 0, kLanesOfGradient));
          _mm512_mask_storeu_ps(gradient + row_of_weight(row + i) * all_outputs() + output, lanes,
                                square[i]);
        }
      }
    sums += outputs_of_task() * kStripOfGradient;
  }
}

}  // namespace poseidon::layers::cpu::product

#endif
