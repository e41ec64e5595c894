#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/wire.h"

namespace poseidon::comm {

/// Takes frames as they are read from a stream.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// Called for each valid header. Returns why such a frame is refused at this moment, or "".
  virtual std::string announced(const FrameHeader& header) = 0;
  /// Returns the destination of a bulk body, of header.length bytes (at least one). If it is empty,
  /// the body is dropped.
  virtual std::span<std::byte> place(const FrameHeader& header) = 0;
  /// Called for each whole frame whose seals are correct. Returns whether to read on.
  virtual bool take(const FrameHeader& header, std::span<const std::byte> body) = 0;
};

/// Cuts a stream of bytes into frames. Bulk bodies are read into their destinations without a copy;
/// small frames come through a buffer, many at a time. Memory for other bodies is taken only after
/// the header was checked. The reader does no I/O: its user reads into room() and calls filled()
/// with the number of bytes.
class FrameReader {
 public:
  /// The most bytes that room() offers beyond a body.
  static constexpr size_t kBufferBytes = 4096;

  /// Returns memory for the next bytes of the stream: two spans, of which the second may be empty,
  /// to be filled one after the other. Valid until the next call.
  std::array<std::span<std::byte>, 2> room();
  /// `count` bytes of room() have been filled. Returns what is wrong with the stream, or "". After
  /// an error, or when the sink has said stop, the reader is not used again.
  std::string filled(size_t count, FrameSink& sink);
  /// Checks the frames that follow by `seal`; the frames before have checksums. Called from a
  /// sink's take(), or between frames.
  void expect(std::unique_ptr<FrameSeal> seal) { seal_ = std::move(seal); }
  /// Bytes that the body being read still lacks; 0 between bodies.
  size_t missing() const;
  /// "" between frames, else what the stream is in the middle of: "the header of a frame".
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
  uint64_t done_ = 0;             ///< bytes of the body that have come
  std::vector<std::byte> small_;  ///< bodies that are not bulk
  std::array<std::byte, kBufferBytes> buffer_;
  size_t begin_ = 0, end_ = 0;  ///< the unread part of buffer_
};

}  // namespace poseidon::comm
