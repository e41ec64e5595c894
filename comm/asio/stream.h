#pragma once

#include <array>
#include <asio.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

/// The bytes of one connection: plain (plain_stream.cpp) or with TLS (tls_stream.cpp). All calls
/// are made in the I/O thread.
namespace poseidon::comm {

using Room = std::array<std::span<std::byte>, 2>;
using Pieces = std::span<const std::span<const std::byte>>;
/// Called when an operation ends, with its error and the number of bytes moved.
using Moved = std::function<void(const std::error_code&, size_t)>;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual asio::ip::tcp::socket& socket() = 0;
  /// Prepares the stream; with TLS this is the TLS handshake. Called once, before the first read or
  /// write.
  virtual void open(bool initiator, Moved done) = 0;
  /// Announces that at least `bytes` more bytes will arrive, so that a read may wait until many of
  /// them have arrived.
  virtual void expect(size_t bytes) { static_cast<void>(bytes); }
  /// Reads some bytes into the room, which must stay valid until `done` or release().
  virtual void read(const Room& room, Moved done) = 0;
  /// Writes some of the pieces, which must stay valid until `done` or release().
  virtual void write(Pieces pieces, Moved done) = 0;
  /// After this call, operations in progress no longer access the caller's memory; they end soon.
  virtual void release() = 0;
};

/// Makes a stream without encryption.
std::unique_ptr<Stream> make_plain_stream(asio::ip::tcp::socket socket);

}  // namespace poseidon::comm
