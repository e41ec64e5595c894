#include <algorithm>
#include <array>

#include "layers/cpu/linear_product.h"
#include "layers/cpu/strip_product.h"
#include "layers/cpu/transpose.h"

namespace poseidon::layers::cpu::product {

namespace {

/// Samples whose output gradients are copied to the scratch memory at a time.
constexpr int64_t kSamplesOfPart = 1024;
/// Samples and inputs of a task. Their output gradients, kDepth of each sample, their sums and
/// their part of the weight stay in the second-level cache.
constexpr int64_t kSamplesOfTask = 256, kInputsOfTask = kRows == 14 ? 112 : 96;
constexpr int64_t kInputUnit = 16;  ///< a task begins at a multiple of this input

/// From this many strips of samples on, a task copies its part of the weight. In place, the strips
/// of the weight may be a multiple of the cache's size apart, so that they evict each other.
constexpr int64_t kStripsOfCopy = 4;

constexpr int64_t kWeightOfBackward = kDepth * kInputsOfTask;

/// Transposes a square of kLanes rows. Only `rows` rows of `from` and `columns` columns exist. Rows
/// of `to` that do not exist are not written. Missing elements become zero if kFills, else they are
/// not written.
template <bool kFills>
void transpose_lanes(const float* from, int64_t from_step, int64_t rows, int64_t columns, float* to,
                     int64_t to_step) {
  using Vector = typename Vectors<kLanes>::Float;
  Vector square[kLanes];
  if (rows == kLanes && columns == kLanes) {
#pragma GCC unroll 16
    for (int64_t row = 0; row < kLanes; ++row) square[row] = load<Vector>(from + row * from_step);
    transpose_square(square);
#pragma GCC unroll 16
    for (int64_t row = 0; row < kLanes; ++row) store(to + row * to_step, square[row]);
    return;
  }
  for (int64_t column = 0; column < columns; ++column) {
    float* lane = to + column * to_step;
    for (int64_t row = 0; row < rows; ++row) lane[row] = from[row * from_step + column];
    if (kFills) std::fill(lane + rows, lane + kLanes, 0.0F);
  }
}

}  // namespace

LinearBackwardData::LinearBackwardData(const LinearSizes& sizes, poseidon::cpu::ThreadTeam& team)
    : sizes_(sizes), team_(team) {}

int64_t LinearBackwardData::copied_floats() const {
  return pieces(std::min(sizes_.samples, kSamplesOfPart), kStrip) * kStrip * sizes_.outputs;
}

int64_t LinearBackwardData::floats_of_sums() const {
  return std::min(pieces(sizes_.samples, kStrip) * kStrip, kSamplesOfTask) * kInputsOfTask;
}

int64_t LinearBackwardData::floats_of_thread() const {
  const bool copies = pieces(sizes_.samples, kStrip) >= kStripsOfCopy;
  return floats_of_sums() + (copies ? kWeightOfBackward : 0);
}

size_t LinearBackwardData::scratch_bytes() const {
  return static_cast<size_t>(copied_floats() + team_.threads() * floats_of_thread()) *
         sizeof(float);
}

void LinearBackwardData::run(const Memory& memory) const {
  for (int64_t first = 0; first < sizes_.samples; first += kSamplesOfPart) {
    const Samples samples{.first = first,
                          .count = std::min(kSamplesOfPart, sizes_.samples - first)};
    const int64_t depths = pieces(sizes_.outputs, kDepth);
    team_.run(pieces(samples.count, kStrip) * depths,
              [&](int64_t i, int) { copy_dy(memory, samples, i / depths, i % depths * kDepth); });
    multiply(memory, samples);
  }
}

/// Transposes a strip of samples of dy, kDepth outputs from `first` on. Missing samples of a vector
/// become zero. Vectors without a sample are not written.
void LinearBackwardData::copy_dy(const Memory& memory, const Samples& samples, int64_t strip,
                                 int64_t first) const {
  const int64_t end = std::min(first + kDepth, sizes_.outputs);
  for (int64_t lane = 0; lane < kStrip; lane += kLanes) {
    const int64_t sample = strip * kStrip + lane;
    const int64_t rows = std::clamp<int64_t>(samples.count - sample, 0, kLanes);
    if (rows == 0) break;
    for (int64_t output = first; output < end; output += kLanes)
      transpose_lanes<true>(memory.dy + (samples.first + sample) * sizes_.outputs + output,
                            sizes_.outputs, rows, std::min<int64_t>(kLanes, end - output),
                            memory.scratch + (strip * sizes_.outputs + output) * kStrip + lane,
                            kStrip);
  }
}

void LinearBackwardData::multiply(const Memory& memory, const Samples& samples) const {
  const int64_t strips = pieces(samples.count, kStrip), units = pieces(sizes_.inputs, kInputUnit);
  const int64_t blocks = pieces(strips * kStrip, kSamplesOfTask);
  const int64_t wanted =
      team_.threads() == 1 ? 1 : pieces(team_.threads() * kLinearTasksOfThread, blocks);
  const int64_t groups =
      std::max(pieces(units * kInputUnit, kInputsOfTask), std::min(wanted, units));
  team_.run(groups * blocks, [&](int64_t i, int thread) {
    const int64_t group = i / blocks, block = i % blocks;
    float* sums = memory.scratch + copied_floats() + thread * floats_of_thread();
    const Task task{.first_strip = strips * block / blocks,
                    .end_strip = strips * (block + 1) / blocks,
                    .first_input = units * group / groups * kInputUnit,
                    .end_input = std::min(units * (group + 1) / groups * kInputUnit, sizes_.inputs),
                    .sums = sums,
                    .weight = sums + floats_of_sums()};
    multiply(memory, samples, task);
    store_dx(memory, samples, task);
  });
}

void LinearBackwardData::multiply(const Memory& memory, const Samples& samples,
                                  const Task& task) const {
  const int64_t inputs = task.end_input - task.first_input, tiles = pieces(inputs, kRows);
  const bool copies = task.end_strip - task.first_strip >= kStripsOfCopy;
  const int64_t padded_inputs = padded_weight_inputs(sizes_.inputs);
  for (int64_t first = 0; first < sizes_.outputs; first += kDepth) {
    const float* weight = memory.weight + first * padded_inputs + task.first_input * kStrip;
    const bool ends = first + kDepth >= sizes_.outputs;
    for (int64_t strip = task.first_strip; strip < task.end_strip; ++strip)
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const int64_t begin = inputs * tile / tiles, end = inputs * (tile + 1) / tiles;
        Piece piece{.first_output = first,
                    .strip = strip,
                    .begin = begin,
                    .rows = end - begin,
                    .weight = weight + begin * kStrip,
                    .step = padded_inputs * kStrip,
                    .next = tile + 1 < tiles ? weight + end * kStrip
                                             : weight + (ends ? 0 : kDepth * padded_inputs),
                    .next_step = padded_inputs * kStrip};
        if (copies) use_copy(memory, task, tile, piece);
        multiply(memory, samples, task, piece);
      }
  }
}

/// The first strip of samples copies the weight of a piece. The tiles of later strips prefetch the
/// next strip of dy.
void LinearBackwardData::use_copy(const Memory& memory, const Task& task, int64_t tile,
                                  Piece& piece) const {
  float* copy = task.weight + piece.begin * kDepth;
  const int64_t strip_floats = piece.rows * kStrip;
  const int64_t depth = std::min(kDepth, sizes_.outputs - piece.first_output);
  if (piece.strip == task.first_strip) {
    for (int64_t i = 0; i < pieces(depth, kStrip); ++i)
      std::copy_n(piece.weight + i * piece.step, strip_floats, copy + i * strip_floats);
  } else {
    const bool is_last = piece.strip + 1 == task.end_strip;
    const int64_t strip = is_last ? task.first_strip : piece.strip + 1;
    const bool ends = piece.first_output + kDepth >= sizes_.outputs;
    const int64_t output = piece.first_output + (is_last && !ends ? kDepth : 0);
    piece.next = memory.scratch + (strip * sizes_.outputs + output) * kStrip +
                 std::min(tile, kLinesOfStrip - 1) * kDepth * kFloatsOfLine;
    piece.next_step = kStrip * kFloatsOfLine;
  }
  piece.weight = copy;
  piece.step = strip_floats;
}

void LinearBackwardData::multiply(const Memory& memory, const Samples& samples, const Task& task,
                                  const Piece& piece) const {
  const int64_t strip = piece.strip, count = std::min(kStrip, samples.count - strip * kStrip);
  float* sums = task.sums + ((strip - task.first_strip) * kInputsOfTask + piece.begin) * kStrip;
  for (int64_t column = 0; column < count; column += kColumns)
    multiply_strips(
        {.a = piece.weight,
         .a_step = piece.step,
         .b = memory.scratch + (strip * sizes_.outputs + piece.first_output) * kStrip + column,
         .depth = std::min(kDepth, sizes_.outputs - piece.first_output),
         .c = sums + column,
         .c_step = kStrip,
         .rows = piece.rows,
         .columns = std::min(kColumns, pieces(count - column, kLanes) * kLanes),
         .sums = piece.first_output > 0 ? sums + column : nullptr,
         .ahead = piece.next,
         .ahead_step = piece.next_step});
}

/// Transposes the sums of a task to dx.
void LinearBackwardData::store_dx(const Memory& memory, const Samples& samples,
                                  const Task& task) const {
  for (int64_t strip = task.first_strip; strip < task.end_strip; ++strip)
    for (int64_t lane = 0; lane < kStrip; lane += kLanes) {
      const int64_t sample = strip * kStrip + lane;
      const int64_t count = std::clamp<int64_t>(samples.count - sample, 0, kLanes);
      const float* sums = task.sums + (strip - task.first_strip) * kInputsOfTask * kStrip + lane;
      float* dx = memory.dx + (samples.first + sample) * sizes_.inputs;
      for (int64_t input = task.first_input; input < task.end_input; input += kLanes) {
        // The next rows of dx, which may be on different pages.
        for (int64_t row = kLanes; row < 2 * kLanes; ++row)
          __builtin_prefetch(dx + row * sizes_.inputs + input, 1);
        transpose_lanes<false>(sums + (input - task.first_input) * kStrip, kStrip,
                               std::min<int64_t>(kLanes, task.end_input - input), count, dx + input,
                               sizes_.inputs);
      }
    }
}

}  // namespace poseidon::layers::cpu::product
