#pragma once

#include <cstddef>
#include <vector>

#include "core/device.h"
#include "net/memory_plan.h"

namespace poseidon::net {

/// A block of device memory that is divided into pieces: activations, gradients, workspaces. Pieces
/// that are never in use at the same time may share memory. Times are moments, which are positions
/// in the order of execution (net/memory_plan.h). Order of calls: add() for all pieces, lay_out(),
/// allocate().
class Arena {
 public:
  /// The content of a piece, for the message of OutOfMemory.
  struct Purpose {
    /// Index in Program::calls() of the program that added the piece. -1: the piece is an input of
    /// the net.
    int call = -1;
    const char* what = "";  ///< for example "output" or "workspace"
  };

  /// Adds a piece that is in use from moment `first` to moment `last`, both inclusive. Returns the
  /// index of the piece.
  int add(size_t bytes, int first, int last, Purpose purpose);
  /// Extends the interval in which the piece is in use, so that it includes `first` to `last`.
  void extend(int piece, int first, int last);
  /// The number of pieces.
  int pieces() const { return static_cast<int>(intervals_.size()); }
  /// Assigns an offset to each piece. No piece may be added or extended afterwards.
  void lay_out() { plan_ = plan_memory(intervals_); }
  /// Bytes of the block, after lay_out().
  size_t bytes() const { return plan_.total; }
  /// The index of the largest piece. At least one piece must exist.
  int largest() const;
  size_t bytes_of(int piece) const { return intervals_[static_cast<size_t>(piece)].bytes; }
  Purpose purpose_of(int piece) const { return purposes_[static_cast<size_t>(piece)]; }

  /// Allocates the block. Throws OutOfMemory.
  void allocate(Device& device) {
    block_ = device.allocate(plan_.total, MemoryKind::kDevice, "activations");
  }
  /// The memory of a piece; null for piece -1, and before allocate().
  std::byte* memory(int piece) const;

 private:
  std::vector<Interval> intervals_;
  std::vector<Purpose> purposes_;
  MemoryPlan plan_;
  Buffer block_;
};

}  // namespace poseidon::net
