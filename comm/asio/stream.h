#pragma once

#include <array>
#include <asio.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

/// The bytes of one connection: in the clear (plain_stream.cpp) or by TLS (tls_stream.cpp). All
/// calls in the I/O thread.
namespace poseidon::comm {

using Room = std::array<std::span<std::byte>, 2>;
using Pieces = std::span<const std::span<const std::byte>>;
/// An operation is over: what went wrong, how many bytes were moved.
using Moved = std::function<void(const std::error_code&, size_t)>;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual asio::ip::tcp::socket& socket() = 0;
  /// Agrees with the other end, once, before anything is read or written.
  virtual void open(bool initiator, Moved done) = 0;
  /// So many more bytes are certain to come: reads may wait until there are many of them.
  virtual void expect(size_t bytes) { static_cast<void>(bytes); }
  /// Reads some bytes into the room, which stays until `done` or release().
  virtual void read(const Room& room, Moved done) = 0;
  /// Writes some of the pieces; they stay until `done` or release().
  virtual void write(Pieces pieces, Moved done) = 0;
  /// From now on memory given to operations under way is left alone; they end soon.
  virtual void release() = 0;
};

/// A stream in the clear.
std::unique_ptr<Stream> make_plain_stream(asio::ip::tcp::socket socket);

}  // namespace poseidon::comm
