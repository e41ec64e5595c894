#pragma once

#include <cstddef>
#include <vector>

#include "core/device.h"
#include "net/memory_plan.h"

namespace poseidon::net {

/// Pieces of memory in one block, in which those that never live together share a place. They are
/// added, laid out, and then the block is taken.
class Arena {
 public:
  /// For what a piece is wanted first: "output" of a call.
  struct Purpose {
    int call = -1;  ///< -1: before the first
    const char* what = "";
  };

  /// A piece that lives from the moment `first` to the moment `last`. Returns its number.
  int add(size_t bytes, int first, int last, Purpose purpose);
  /// The piece lives at these moments as well.
  void extend(int piece, int first, int last);
  /// How many there are.
  int pieces() const { return static_cast<int>(intervals_.size()); }
  /// Gives every piece its place: none is added after it.
  void lay_out() { plan_ = plan_memory(intervals_); }
  /// Of the block, once it is laid out.
  size_t bytes() const { return plan_.total; }
  /// The piece that is largest. There must be one.
  int largest() const;
  size_t bytes_of(int piece) const { return intervals_[static_cast<size_t>(piece)].bytes; }
  Purpose purpose_of(int piece) const { return purposes_[static_cast<size_t>(piece)]; }

  /// Throws OutOfMemory.
  void take(Device& device) {
    block_ = device.allocate(plan_.total, Place::kDevice, "activations");
  }
  /// Of a piece; null for -1, and before the block is taken.
  std::byte* memory(int piece) const;

 private:
  std::vector<Interval> intervals_;
  std::vector<Purpose> purposes_;
  MemoryPlan plan_;
  Buffer block_;
};

}  // namespace poseidon::net
