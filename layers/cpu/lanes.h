#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/tensor.h"
#include "layers/cpu/transpose.h"
#include "layers/cpu/vectors.h"

/// Planes of an activation, in the lanes of vectors. A plane is one channel of one sample. So a
/// layer that computes each plane independently needs only one implementation for all layouts.
namespace poseidon::layers::cpu {

/// Up to kLanesOfBlock planes, and the locations of their elements.
struct LaneGroup {
  int64_t first = 0;  ///< offset of the first cell of the first lane
  int64_t end = 0;    ///< end of the activation's memory
  int64_t lanes = 0;
  int64_t lane_step = 1, cell_step = 1;  ///< elements from one lane or cell to the next
  int64_t plane = 0;                     ///< plane of the first lane: sample * channels + channel

  /// Whether neighboring cells of a plane are adjacent in memory, instead of neighboring lanes.
  bool is_transposed() const { return cell_step == 1; }
};

/// All planes of an activation, in groups. In plain layout a group may have planes of several
/// samples. In other layouts it has neighboring channels of one sample, including the padding of a
/// block.
class LaneGroups {
 public:
  LaneGroups(const Shape& shape, Layout layout)
      : layout_(shape, layout),
        of_block_((layout_.block + kLanesOfBlock - 1) / kLanesOfBlock),
        planes_(layout_.samples * layout_.channels) {}

  int64_t count() const {
    return layout_.block == 1 ? (planes_ + kLanesOfBlock - 1) / kLanesOfBlock
                              : layout_.samples * layout_.blocks * of_block_;
  }

  LaneGroup at(int64_t group) const {
    if (layout_.block == 1) {
      const int64_t plane = group * kLanesOfBlock;
      return {.first = plane * layout_.area,
              .end = layout_.count(),
              .lanes = std::min<int64_t>(kLanesOfBlock, planes_ - plane),
              .lane_step = layout_.area,
              .cell_step = 1,
              .plane = plane};
    }
    const int64_t block = group / of_block_, lane = group % of_block_ * kLanesOfBlock;
    return {.first = block * layout_.area * layout_.block + lane,
            .end = layout_.count(),
            .lanes = std::min<int64_t>(kLanesOfBlock, layout_.block - lane),
            .lane_step = 1,
            .cell_step = layout_.block,
            .plane = block / layout_.blocks * layout_.channels +
                     block % layout_.blocks * layout_.block + lane};
  }

 private:
  Blocking layout_;
  int64_t of_block_, planes_;
};

/// Rows of a group of planes as [cell][kLanesOfBlock] floats. If memory has another order or type,
/// the rows are copies. Lanes without a plane are zero.
template <class Element>
class LaneRows {
 public:
  LaneRows(Element* data, const LaneGroup& group, int64_t width)
      : data_(data), group_(group), width_(width) {}

  /// Copies a row to `room`, unless memory already has the row in this form.
  void fetch(int64_t row, float* room) const {
    if (is_direct()) return;
    if (group_.is_transposed())
      for (int64_t cell = 0; cell < width_; cell += kLanes)
        fetch_square(group_.first + row * width_ + cell, std::min(kLanes, width_ - cell),
                     room + cell * kLanes);
    else
      for (int64_t cell = 0; cell < width_; ++cell)
        store(room + cell * kLanes, load_lanes(offset(row) + cell * group_.cell_step));
  }

  /// The address of a row after fetch(), or the address at which to compute it before put().
  float* row(int64_t row, float* room) const {
    if constexpr (std::is_same_v<Element, float>)
      if (is_direct()) return data_ + offset(row);
    return room;
  }

  /// Copies a computed row from `room` to its place in memory. Does nothing if row() returned that
  /// place.
  void put(int64_t row, const float* room) const {
    if (is_direct()) return;
    if (group_.is_transposed())
      for (int64_t cell = 0; cell < width_; cell += kLanes)
        put_square(group_.first + row * width_ + cell, std::min(kLanes, width_ - cell),
                   room + cell * kLanes);
    else
      for (int64_t cell = 0; cell < width_; ++cell)
        store_part(load<Float>(room + cell * kLanes), group_.lanes,
                   data_ + offset(row) + cell * group_.cell_step);
  }

 private:
  static constexpr int64_t kLanes = kLanesOfBlock;
  using Float = typename Vectors<kLanesOfBlock>::Float;

  bool is_direct() const {
    return std::is_same_v<Element, float> && group_.cell_step == kLanes && group_.lanes == kLanes;
  }
  int64_t offset(int64_t row) const { return group_.first + row * width_ * group_.cell_step; }

  Float load_part(int64_t offset, int64_t count) const {
    Float vector{};
    for (int64_t i = 0; i < count; ++i) vector[i] = static_cast<float>(data_[offset + i]);
    return vector;
  }
  static void store_part(const Float& vector, int64_t count, Element* to) {
    if (count == kLanes) return store<Float>(to, vector);
    for (int64_t i = 0; i < count; ++i) to[i] = Element(vector[i]);
  }

  Float load_lanes(int64_t offset) const {
    return group_.lanes == kLanes ? load<Float>(data_ + offset) : load_part(offset, group_.lanes);
  }

  /// Loads up to kLanes cells of all lanes. Requires is_transposed(). May read cells after these
  /// cells, but only within the activation.
  void fetch_square(int64_t offset, int64_t cells, float* to) const {
    Float rows[kLanes];
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kLanes; ++lane, offset += group_.lane_step)
      rows[lane] = lane >= group_.lanes            ? Float{}
                   : offset + kLanes <= group_.end ? load<Float>(data_ + offset)
                                                   : load_part(offset, cells);
    transpose_square(rows);
#pragma GCC unroll 16
    for (int64_t cell = 0; cell < kLanes; ++cell)
      if (cell < cells) store(to + cell * kLanes, rows[cell]);
  }

  void put_square(int64_t offset, int64_t cells, const float* from) const {
    Float rows[kLanes];
#pragma GCC unroll 16
    for (int64_t cell = 0; cell < kLanes; ++cell)
      rows[cell] = cell < cells ? load<Float>(from + cell * kLanes) : Float{};
    transpose_square(rows);
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kLanes; ++lane)
      if (lane < group_.lanes)
        store_part(rows[lane], cells, data_ + offset + lane * group_.lane_step);
  }

  Element* data_;
  LaneGroup group_;
  int64_t width_;
};

}  // namespace poseidon::layers::cpu
