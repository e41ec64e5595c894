#include <algorithm>

#include "layers/cpu/linear_product.h"
#include "layers/cpu/strip_product.h"

namespace poseidon::layers::cpu::product {

namespace {

/// Tiles of samples whose inputs are copied to the scratch memory at a time: about 1000 samples.
constexpr int64_t kTilesOfPart = 1008 / kRows;
/// Tiles of samples, and strips of outputs, of a task. Inputs, kDepth of each sample, and sums stay
/// in the second-level cache.
constexpr int64_t kTilesOfTask = 252 / kRows, kStripsOfTask = 256 / kStrip;
/// Tiles of a task that copies inputs. A small copy stays in a cache.
constexpr int64_t kTilesOfCopy = 1;

constexpr int64_t kRowsOfSums = kTilesOfTask * kRows;

}  // namespace

poseidon::cpu::MemoryDesc linear_weight_order(const LinearSizes& sizes) {
  using poseidon::cpu::FormatTag;
  return {{sizes.outputs, sizes.inputs},
          poseidon::cpu::kFloat,
          kStrip == 32 ? FormatTag::AB16b32a : FormatTag::AB16b16a};
}

int64_t padded_weight_inputs(int64_t inputs) { return pieces(inputs, 16) * 16; }

LinearForward::LinearForward(const LinearSizes& sizes, poseidon::cpu::ThreadTeam& team)
    : sizes_(sizes), team_(team) {}

int64_t LinearForward::padded_inputs() const { return pieces(sizes_.inputs, kStrip) * kStrip; }

LinearForward::Division LinearForward::division(int64_t tiles) const {
  const int64_t strips = pieces(sizes_.outputs, kStrip);
  const int64_t wanted = team_.threads() == 1 ? 1 : team_.threads() * kLinearTasksOfThread;
  const int64_t groups = pieces(strips, std::clamp<int64_t>(strips / wanted, 1, kStripsOfTask));
  const int64_t most = groups == 1 ? kTilesOfCopy : kTilesOfTask;
  return {
      .groups = groups,
      .blocks = std::max(pieces(tiles, most), std::min(pieces(tiles, 2), pieces(wanted, groups)))};
}

/// If one task computes all outputs of a sample, each thread copies x for one task at a time.
int64_t LinearForward::copied_floats() const {
  const int64_t rows = division(1).groups == 1 ? team_.threads() * kTilesOfCopy * kRows
                                               : std::min(sizes_.samples, kTilesOfPart * kRows);
  return rows * padded_inputs();
}

/// Sums pass through memory only if there are more than kDepth inputs.
int64_t LinearForward::floats_of_thread() const {
  if (sizes_.inputs <= kDepth) return 0;
  return kRowsOfSums * std::min(pieces(sizes_.outputs, kStrip), kStripsOfTask) * kStrip;
}

size_t LinearForward::scratch_bytes() const {
  return static_cast<size_t>(copied_floats() + team_.threads() * floats_of_thread()) *
         sizeof(float);
}

void LinearForward::run(const Memory& memory) const {
  for (int64_t first = 0; first < sizes_.samples; first += kTilesOfPart * kRows) {
    const int64_t count = std::min(kTilesOfPart * kRows, sizes_.samples - first);
    multiply(memory, {.first = first, .count = count, .tiles = pieces(count, kRows)});
  }
}

/// Copies a tile's rows of x to strips at `to`.
void LinearForward::copy_x(const float* x, const Rows& rows, int64_t tile, float* to) const {
  const int64_t begin = rows.begin(tile), count = rows.begin(tile + 1) - begin;
  for (int64_t row = 0; row < count; ++row) {
    const float* from = x + (rows.first + begin + row) * sizes_.inputs;
    float* strip = to + begin * padded_inputs() + row * kStrip;
    int64_t input = 0;
    for (; input + kStrip <= sizes_.inputs; input += kStrip, strip += count * kStrip)
      copy_row<kStrip>(from + input, strip);
    std::copy(from + input, from + sizes_.inputs, strip);
  }
}

void LinearForward::multiply(const Memory& memory, const Rows& rows) const {
  const Division parts = division(rows.tiles);
  const int64_t strips = pieces(sizes_.outputs, kStrip);
  if (parts.groups > 1)
    team_.run(rows.tiles, [&](int64_t tile, int) { copy_x(memory.x, rows, tile, memory.scratch); });
  team_.run(parts.groups * parts.blocks, [&](int64_t i, int thread) {
    const int64_t group = i / parts.blocks, block = i % parts.blocks;
    Task task{.first_tile = rows.tiles * block / parts.blocks,
              .end_tile = rows.tiles * (block + 1) / parts.blocks,
              .first_strip = strips * group / parts.groups,
              .end_strip = strips * (group + 1) / parts.groups,
              .x = memory.scratch,
              .sums = memory.scratch + copied_floats() + thread * floats_of_thread()};
    if (parts.groups == 1) {
      float* copy = memory.scratch + thread * kTilesOfCopy * kRows * padded_inputs() -
                    rows.begin(task.first_tile) * padded_inputs();
      for (int64_t tile = task.first_tile; tile < task.end_tile; ++tile)
        copy_x(memory.x, rows, tile, copy);
      task.x = copy;
    }
    for (int64_t first = 0; first < sizes_.inputs; first += kDepth)
      for (int64_t strip = task.first_strip; strip < task.end_strip; ++strip)
        multiply(memory, rows, task, strip, first);
  });
}

/// Multiplies by kDepth inputs, from `first` on, of a strip of the weight.
void LinearForward::multiply(const Memory& memory, const Rows& rows, const Task& task,
                             int64_t strip, int64_t first) const {
  const int64_t strip_floats = pieces(sizes_.inputs, 16) * 16 * kStrip;
  const float* weight = memory.weight + strip * strip_floats + first * kStrip;
  const bool ends = first + kDepth >= sizes_.inputs;
  const float* next = weight + strip_floats;
  if (strip + 1 == task.end_strip)
    next = ends ? nullptr
                : memory.weight + task.first_strip * strip_floats + (first + kDepth) * kStrip;
  const int64_t output = strip * kStrip;
  for (int64_t column = 0; column < std::min(kStrip, sizes_.outputs - output); column += kColumns)
    for (int64_t tile = task.first_tile; tile < task.end_tile; ++tile) {
      const int64_t begin = rows.begin(tile), count = rows.begin(tile + 1) - begin;
      // The first tiles prefetch the weight that the task needs next, the others the inputs of the
      // next tile.
      const int64_t part = tile - task.first_tile;
      const bool prefetches = part < kLinesOfStrip && next != nullptr;
      const float* a = task.x + begin * padded_inputs() + first * count;
      float* sums =
          task.sums + column + ((strip - task.first_strip) * kRowsOfSums + part * kRows) * kStrip;
      float* y = memory.y + (rows.first + begin) * sizes_.outputs + output + column;
      multiply_strips(
          {.a = a,
           .a_step = count * kStrip,
           .b = weight + column,
           .depth = std::min(kDepth, sizes_.inputs - first),
           .c = ends ? y : sums,
           .c_step = ends ? sizes_.outputs : kStrip,
           .rows = count,
           .columns = std::min(kColumns, sizes_.outputs - output - column),
           .sums = first > 0 ? sums : nullptr,
           .values = memory.bias == nullptr ? nullptr : memory.bias + output + column,
           .relu = memory.relu && ends ? &*memory.relu : nullptr,
           .ahead = prefetches ? next + part * kDepth * kFloatsOfLine : a + count * padded_inputs(),
           .ahead_step = prefetches ? kStrip * kFloatsOfLine : count * kStrip});
    }
}

}  // namespace poseidon::layers::cpu::product
