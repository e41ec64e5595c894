#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/wire.h"

namespace poseidon::comm {

/// Receives the frames that a FrameReader reads from a stream.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Called for each valid header. Returns why such a frame is refused in the present state of the
  /// connection, or "".
  virtual std::string announced(const FrameHeader& header) = 0;
  /// Returns the destination of a bulk body, header.length bytes (at least one). An empty
  /// destination drops the body.
  virtual std::span<std::byte> destination(const FrameHeader& header) = 0;
  /// Called for each complete frame whose seals are correct, unless its body was dropped. Returns
  /// false to stop reading.
  virtual bool take(const FrameHeader& header, std::span<const std::byte> body) = 0;
};

/// Splits a stream of bytes into frames. A bulk body is read directly into its destination, except
/// bytes that arrive in the buffer with the header. Small frames are read through the buffer,
/// several in one read. Memory for a body that is not bulk is allocated only after the header is
/// checked. The reader does no I/O: its user reads into room() and calls filled() with the number
/// of bytes.
class FrameReader {
 public:
  /// The most bytes that room() offers in addition to a body.
  static constexpr size_t kBufferBytes = 4096;

  /// Returns memory for the next bytes of the stream: two spans to fill in this order. The second
  /// may be empty. Valid until the next call of filled().
  std::array<std::span<std::byte>, 2> room();
  /// Processes the first `count` bytes of room(), which the caller has filled. Returns the fault of
  /// the stream, or "". After a fault, or after FrameSink::take() has returned false, the reader
  /// must not be used.
  std::string filled(size_t count, FrameSink& sink);
  /// Checks all later frames with `seal` instead of checksums. Call it from FrameSink::take(), or
  /// between frames.
  void expect(std::unique_ptr<FrameSeal> seal) { seal_ = std::move(seal); }
  /// Bytes that are still missing from the current body; 0 between bodies.
  size_t missing() const;
  /// Names the item in which the stream ended, for messages: "the header of a frame", or "a TLS
  /// alert: ..." if the peer uses TLS. Returns "" between frames.
  std::string unfinished() const;

 private:
  enum class State { kHeader, kBody, kDropped, kStopped };

  std::string read_buffer(FrameSink& sink);
  std::string read_header(FrameSink& sink);
  std::string read_body(FrameSink& sink);
  void open_body(FrameSink& sink);
  std::string body_grew(size_t count, FrameSink& sink);
  std::string finish(FrameSink& sink);
  std::span<const std::byte> buffered() const;

  std::unique_ptr<FrameSeal> seal_ = std::make_unique<ChecksumSeal>();
  State state_ = State::kHeader;
  FrameHeader header_;
  std::span<std::byte> body_;     ///< the destination of the body, in state kBody
  uint64_t done_ = 0;             ///< bytes of the body that have arrived
  std::vector<std::byte> small_;  ///< the memory of a body that is not bulk
  std::array<std::byte, kBufferBytes> buffer_;
  size_t begin_ = 0, end_ = 0;  ///< the unread range of buffer_
};

}  // namespace poseidon::comm
