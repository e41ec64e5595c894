#pragma once

#include <asio.hpp>
#include <functional>
#include <string>

namespace poseidon::comm {

/// The system's text for an error, as part of a sentence: "connection reset by peer".
std::string text_of(const std::error_code& error);

/// Connects a socket to an address. Used in the I/O thread only.
class Dialler {
 public:
  /// Called with the error, or "".
  using Done = std::function<void(const std::string&)>;

  explicit Dialler(asio::ip::tcp::socket& socket)
      : socket_(socket), resolver_(socket.get_executor()) {}

  /// Connects to a "host:port", then calls `done`. Dialler and socket must live until `done` is
  /// called or destroyed.
  void dial(const std::string& address, Done done);
  void cancel();
  /// A prefix for errors if the peer's name, other than "localhost", resolves to loopback on this
  /// machine; otherwise "".
  const std::string& remark() const { return remark_; }

 private:
  using Endpoints = asio::ip::tcp::resolver::results_type;
  void note_loopback(const std::string& name, const Endpoints& endpoints);
  void connect(const Endpoints& endpoints, Done done);

  asio::ip::tcp::socket& socket_;
  asio::ip::tcp::resolver resolver_;
  bool cancelled_ = false;
  std::string remark_;
};

}  // namespace poseidon::comm
