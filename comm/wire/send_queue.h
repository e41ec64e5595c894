#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "comm/wire/transport.h"

/// What waits to be sent over one connection, and what is being sent. No I/O.
namespace poseidon::comm {

/// The same bytes, with an owner.
Payload copy_of(std::span<const std::byte> bytes);

struct OutFrame {
  FrameHeader header;
  Payload payload;
  size_t bytes() const { return kHeaderBytes + payload.bytes.size(); }
};

/// Frames by priority; equals in the order they came.
class SendQueue {
 public:
  void push(OutFrame frame, Priority priority);
  bool empty() const { return by_priority_.empty(); }
  /// Of a queue that is not empty: the frame that leaves next.
  Priority first_priority() const { return by_priority_.begin()->first; }
  const OutFrame& first() const { return by_priority_.begin()->second.front(); }
  OutFrame pop();
  /// Forgets all frames but urgent ones, and copies bodies of theirs that have no owner.
  void keep_urgent();
  void clear() { by_priority_.clear(); }

 private:
  std::map<Priority, std::deque<OutFrame>> by_priority_;
};

/// Frames that have left the queue and are written together, headers and bodies gathered: nothing
/// overtakes them any more.
class SendBatch {
 public:
  /// No frame is added to a batch of so many frames, or so many bytes.
  static constexpr size_t kMostFrames = 32;
  static constexpr size_t kEnoughBytes = 64 * 1024;

  bool done() const { return next_ == pieces_.size(); }
  bool full() const { return frames_.size() == kMostFrames || bytes_ >= kEnoughBytes; }
  /// Fills in length and seals of its header.
  void add(OutFrame frame, FrameSeal& seal);
  /// What is still to be written, at most 2 x kMostFrames pieces. Valid until the next call.
  std::span<const std::span<const std::byte>> pieces() const {
    return std::span(pieces_).subspan(next_);
  }
  /// The first `count` bytes of pieces() have been written.
  void advance(size_t count);
  /// Copies the bodies that have no owner: from now on only memory of its own is read.
  void keep_bodies();
  void clear();

 private:
  std::vector<OutFrame> frames_;
  std::array<std::array<std::byte, kHeaderBytes>, kMostFrames> headers_;
  std::vector<std::span<const std::byte>> pieces_;  ///< header and body of each frame in turn
  size_t next_ = 0;                                 ///< into pieces_
  size_t bytes_ = 0;
};

}  // namespace poseidon::comm
