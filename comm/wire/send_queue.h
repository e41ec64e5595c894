#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <span>
#include <vector>

#include "comm/wire/transport.h"

/// The frames that wait to be sent over one connection, and the frames that are being written.
/// There is no I/O here.
namespace poseidon::comm {

/// Copies `bytes` into a payload that owns them.
Payload copy_of(std::span<const std::byte> bytes);

struct OutFrame {
  FrameHeader header;
  Payload payload;
  size_t bytes() const { return kHeaderBytes + payload.bytes.size(); }
};

/// Frames in order of priority; frames of one priority stay in order of arrival.
class SendQueue {
 public:
  void push(OutFrame frame, Priority priority);
  bool empty() const { return by_priority_.empty(); }
  /// The frame that leaves next, and its priority. The queue must not be empty.
  Priority first_priority() const { return by_priority_.begin()->first; }
  const OutFrame& first() const { return by_priority_.begin()->second.front(); }
  OutFrame pop();
  /// Drops all frames except the urgent ones. Copies the urgent bodies that have no owner, so the
  /// caller may reuse their memory.
  void keep_urgent();
  void clear() { by_priority_.clear(); }

 private:
  std::map<Priority, std::deque<OutFrame>> by_priority_;
};

/// Frames that have left the queue and are written in one gathered write of headers and bodies. No
/// later frame overtakes them.
class SendBatch {
 public:
  /// A batch of this many frames or bytes is full. full() accepts another limit of bytes.
  static constexpr size_t kMaxFrames = 32;
  static constexpr size_t kEnoughBytes = 64 * 1024;

  bool done() const { return next_ == pieces_.size(); }
  bool full(uint64_t enough = kEnoughBytes) const {
    return frames_.size() == kMaxFrames || bytes_ >= enough;
  }
  /// Adds a frame, and fills in the length and the seals of its header.
  void add(OutFrame frame, FrameSeal& seal);
  /// The bytes that are not written yet, at most 2 x kMaxFrames spans. Valid until the batch
  /// changes.
  std::span<const std::span<const std::byte>> pieces() const {
    return std::span(pieces_).subspan(next_);
  }
  /// Records that the first `count` bytes of pieces() are written.
  void advance(size_t count);
  /// Copies the bodies that have no owner, so that the batch reads only its own memory from now on.
  void keep_bodies();
  void clear();

 private:
  std::vector<OutFrame> frames_;
  std::array<std::array<std::byte, kHeaderBytes>, kMaxFrames> headers_;
  std::vector<std::span<const std::byte>> pieces_;  ///< header and body of each frame, alternately
  size_t next_ = 0;                                 ///< index into pieces_
  size_t bytes_ = 0;
};

}  // namespace poseidon::comm
