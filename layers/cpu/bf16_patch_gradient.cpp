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
constexpr int64_t kStripOfGradient = 2 * kLanesOfGradient;  ///< columns of a strip

/// Places of a panel. Rows of gradients have an odd number of cache lines, so that they are in
/// different sets.
constexpr int64_t kPlacesOfPanel = 256, kGradientStep = kPlacesOfPanel + kUnitOfBf16;

/// Elements from one vector of a panel of B to the next.
constexpr int64_t kStepOfPanel = kPlacesOfPanel * kLanesOfGradient;

/// Outputs of a task. The sums of a task stay in the second-level cache.
constexpr int64_t kMostOutputs = 256, kMostSums = 128 << 10;

/// Enough tasks for a few dozen threads. Only more than kPlacesOfOneSlice places are divided.
constexpr int64_t kWantedTasks = 64, kPlacesOfOneSlice = 2048, kStripsPerTask = 4;

int64_t rounded_to(int64_t count, int64_t unit) { return divide_up(count, unit) * unit; }

std::vector<Bf16Patches> rows_of(std::vector<Patches> patches) {
  std::vector<Bf16Patches> rows;
  for (Patches& each : patches) rows.emplace_back(std::move(each));
  return rows;
}

}  // namespace

Bf16PatchGradient::Bf16PatchGradient(std::vector<Patches> inputs, std::vector<Patches> gradients,
                                     bool bias, int64_t threads)
    : inputs_(rows_of(std::move(inputs))), gradients_(rows_of(std::move(gradients))), bias_(bias) {
  divide(threads);
}

int64_t Bf16PatchGradient::strips() const { return divide_up(rows(), kStripOfGradient); }

/// The number of slices does not depend on `threads`, because it changes the bits.
void Bf16PatchGradient::divide(int64_t threads) {
  const int64_t others = static_cast<int64_t>(inputs_.size()) * divide_up(outputs(), kMostOutputs);
  slices_ =
      std::clamp<int64_t>(divide_up(kWantedTasks, others * divide_up(strips(), kStripsPerTask)), 1,
                          divide_up(inputs_[0].patches().places(), kPlacesOfOneSlice));
  const int64_t fitting = kMostSums / (outputs_of_task() * kStripOfGradient);
  const int64_t wanted = threads > 1 ? divide_up(4 * threads, others * slices_) : 1;
  ranges_of_strips_ =
      std::clamp(wanted, divide_up(strips(), std::max<int64_t>(1, fitting)), strips());
  for (int64_t slice = 0; slice < slices_; ++slice)
    for (size_t group = 0; group < inputs_.size(); ++group)
      for (int64_t output = 0; output < outputs(); output += kMostOutputs)
        for (int64_t range = 0; range < ranges_of_strips_; ++range)
          tasks_.push_back({.group = group,
                            .first_strip = strips() * range / ranges_of_strips_,
                            .last_strip = strips() * (range + 1) / ranges_of_strips_,
                            .output = output,
                            .slice = slice});
}

/// The maximum number of outputs in a task, padded to whole blocks of sums.
int64_t Bf16PatchGradient::outputs_of_task() const {
  return rounded_to(std::min(kMostOutputs, outputs()), kRowsOfBf16);
}

int64_t Bf16PatchGradient::outputs_of(const Task& task) const {
  return std::min(kMostOutputs, outputs() - task.output);
}

int64_t Bf16PatchGradient::strips_of_task() const { return divide_up(strips(), ranges_of_strips_); }

int64_t Bf16PatchGradient::sum_floats() const {
  return strips_of_task() * outputs_of_task() * kStripOfGradient;
}

Bf16PatchGradient::Room Bf16PatchGradient::room(std::byte* scratch) const {
  Room room{};
  room.sums = reinterpret_cast<float*>(scratch);
  room.gradients = reinterpret_cast<Bf16*>(room.sums + sum_floats());
  room.rows = room.gradients + outputs_of_task() * kGradientStep;
  room.panel = room.rows + kPlacesOfPanel * kStripOfGradient;
  room.window = room.panel + kPlacesOfPanel * kStripOfGradient;
  return room;
}

int64_t Bf16PatchGradient::scratch_bytes() const {
  const int64_t window =
      std::max(inputs_[0].elements(kPlacesOfPanel), gradients_[0].elements(kPlacesOfPanel));
  const int64_t elements =
      outputs_of_task() * kGradientStep + 2 * kPlacesOfPanel * kStripOfGradient + window;
  return sum_floats() * 4 + rounded_to(elements * 2, 64);
}

/// Divides the places of a slice into panels of about equal depth.
void Bf16PatchGradient::run(int64_t index, const Memory& memory) const {
  const Task& task = tasks_[static_cast<size_t>(index)];
  const int64_t places = inputs_[0].patches().places();
  const int64_t first = places * task.slice / slices_;
  const int64_t all = places * (task.slice + 1) / slices_ - first;
  const int64_t depths = divide_up(all, kPlacesOfPanel);
  const Room own = room(memory.scratch);
  const Bf16Multiplier multiplier;
  for (int64_t i = 0; i < depths; ++i) {
    const int64_t begin = all * i / depths, end = all * (i + 1) / depths;
    run_depth(task, {.place = first + begin, .count = end - begin, .is_first = i == 0}, memory, own,
              multiplier);
  }
  store_sums(task, own.sums, memory.slices[task.slice]);
}

void Bf16PatchGradient::run_depth(const Task& task, const Depth& depth, const Memory& memory,
                                  const Room& room, const Bf16Multiplier& multiplier) const {
  transpose_gradients(task, depth, memory, room);
  const Bf16Patches::Source source =
      inputs_[task.group].source(memory.input, {depth.place, depth.count}, room.window);
  const int64_t padded = rounded_to(depth.count, kUnitOfBf16), outputs = outputs_of(task);
  float* sums = room.sums;
  for (int64_t strip = task.first_strip; strip < task.last_strip; ++strip) {
    const int64_t vectors = copy_inputs(task, depth, strip, source, room);
    for (int64_t row = 0; row < outputs; row += kRowsOfBf16)
      multiplier.multiply(
          {room.gradients + row * kGradientStep, kGradientStep, kContiguousUnits.data()},
          std::min(kRowsOfBf16, outputs - row), {room.panel, kStepOfPanel}, vectors,
          padded / kUnitOfBf16, {sums + row * kStripOfGradient, kStripOfGradient, !depth.is_first});
    sums += outputs_of_task() * kStripOfGradient;
  }
}

/// Copies a strip of the patches to the panel of B. Returns the number of its vectors.
int64_t Bf16PatchGradient::copy_inputs(const Task& task, const Depth& depth, int64_t strip,
                                       const Bf16Patches::Source& source, const Room& room) const {
  const int64_t column = strip * kStripOfGradient;
  const int64_t count = std::min(kStripOfGradient, columns() - column);
  const int64_t padded = rounded_to(depth.count, kUnitOfBf16);
  inputs_[task.group].copy_rows(
      source, {.place = depth.place, .places = depth.count, .column = column, .columns = count},
      kStripOfGradient, room.rows, kStripOfGradient);
  std::fill_n(room.rows + depth.count * kStripOfGradient, (padded - depth.count) * kStripOfGradient,
              Bf16{});
  const bool has_ones = bias_ && count < kStripOfGradient;
  if (has_ones)
    for (int64_t place = 0; place < depth.count; ++place)
      room.rows[place * kStripOfGradient + count] = 1.0F;
  const int64_t vectors = divide_up(count + (has_ones ? 1 : 0), kLanesOfGradient);
  for (int64_t place = 0; place < padded; place += 2)
    for (int64_t v = 0; v < vectors; ++v) {
      const Bf16* row = room.rows + place * kStripOfGradient + v * kLanesOfGradient;
      interleave(row, row + kStripOfGradient,
                 room.panel + v * kStepOfPanel + place * kLanesOfGradient);
    }
  return vectors;
}

void Bf16PatchGradient::transpose_gradients(const Task& task, const Depth& depth,
                                            const Memory& memory, const Room& room) const {
  const Bf16Patches& gradients = gradients_[task.group];
  const Bf16Patches::Source source =
      gradients.source(memory.gradient, {depth.place, depth.count}, room.window);
  const int64_t padded = rounded_to(depth.count, kUnitOfBf16), outputs = outputs_of(task);
  for (int64_t row = 0; row < outputs; row += kLanesOfGradient) {
    gradients.copy_rows(source,
                        {.place = depth.place,
                         .places = depth.count,
                         .column = task.output + row,
                         .columns = std::min(kLanesOfGradient, outputs - row)},
                        kLanesOfGradient, room.rows, kLanesOfGradient);
    std::fill_n(room.rows + depth.count * kLanesOfGradient,
                (padded - depth.count) * kLanesOfGradient, Bf16{});
    transpose_bf16(room.rows, padded, room.gradients + row * kGradientStep, kGradientStep);
  }
}

/// Transposes the sums to the order of the weight.
void Bf16PatchGradient::store_sums(const Task& task, const float* sums, float* gradient) const {
  const int64_t first = static_cast<int64_t>(task.group) * outputs() + task.output;
  const int64_t outputs = outputs_of(task);
  for (int64_t vector = 2 * task.first_strip; vector < 2 * task.last_strip; ++vector) {
    const int64_t column = vector * kLanesOfGradient;
    for (int64_t row = 0; row < outputs; row += kLanesOfGradient) {
      VectorOfBlock square[kLanesOfBlock];
      const float* from = sums + row * kStripOfGradient + vector % 2 * kLanesOfGradient;
#pragma GCC unroll 16
      for (int64_t lane = 0; lane < kLanesOfGradient; ++lane)
        square[lane] = load<VectorOfBlock>(from + lane * kStripOfGradient);
      transpose_square(square);
      const LaneMask lanes = lanes_between(0, std::min(kLanesOfGradient, outputs - row));
      const int64_t count = std::min(kLanesOfGradient, rows() - column);
      float* to = gradient + column * all_outputs() + first + row;
      for (int64_t i = 0; i < count; ++i)
        _mm512_mask_storeu_ps(to + i * all_outputs(), lanes, square[i]);
    }
    if (vector % 2 == 1) sums += outputs_of_task() * kStripOfGradient;
  }
}

}  // namespace poseidon::layers::cpu::product

#endif
