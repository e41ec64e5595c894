#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/wire/wire.h"

namespace poseidon::comm {

/// Who takes frames as they are read from a stream.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  /// A good header was read. Returns why such a frame is refused now, or "".
  virtual std::string announced(const FrameHeader& header) = 0;
  /// Where a bulk body goes, header.length bytes, at least one; empty: it is dropped.
  virtual std::span<std::byte> place(const FrameHeader& header) = 0;
  /// A whole frame, its seals right. Returns whether to read on.
  virtual bool take(const FrameHeader& header, std::span<const std::byte> body) = 0;
};

/// Cuts a stream of bytes into frames. Bulk bodies are read into their places without a copy; what
/// is small comes through a buffer, many frames at a time. Memory for other bodies is taken after
/// the header was checked. No I/O: ask for room(), read into it, say how much has come.
class FrameReader {
 public:
  /// The most bytes that room() offers beyond a body.
  static constexpr size_t kBufferBytes = 4096;

  /// Memory for the next bytes of the stream, to be filled one after the other; the second may be
  /// empty. Valid until the next call.
  std::array<std::span<std::byte>, 2> room();
  /// `count` bytes of room() have been filled. Returns what is wrong with the stream, or "". After
  /// an error, or when the sink has said stop, the reader is not used again.
  std::string filled(size_t count, FrameSink& sink);
  /// The frames that follow are sealed so; until then they have checksums. For a sink's take(), or
  /// between frames.
  void expect(std::unique_ptr<FrameSeal> seal) { seal_ = std::move(seal); }
  /// Bytes that the body which is being read still lacks; 0 between bodies.
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
  std::span<std::byte> body_;     ///< kBody: where it goes
  uint64_t done_ = 0;             ///< bytes of the body that came
  std::vector<std::byte> small_;  ///< bodies that are not bulk
  std::array<std::byte, kBufferBytes> buffer_;
  size_t begin_ = 0, end_ = 0;  ///< what of the buffer is not read yet
};

}  // namespace poseidon::comm
