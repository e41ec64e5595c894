#pragma once

#include <asio.hpp>
#include <functional>
#include <string>

#include "comm/asio/driver.h"

namespace poseidon::comm {

/// Accepts connections at one address. Used in the I/O thread, except for the constructor.
class Listener {
 public:
  using Accepted = std::function<void(asio::ip::tcp::socket)>;

  /// Binds and listens. Throws ConfigError for an invalid address. Without a secret or TLS, also
  /// throws ConfigError if the address is not loopback; with AsioOptions::insecure it only warns.
  /// Throws RunError if the system cannot listen there, for example because the port is in use.
  Listener(asio::io_context& io, const AsioOptions& options);
  /// The address at which this object listens: "127.0.0.1:40123".
  std::string address() const;
  /// The address for other nodes: address(), or the name in AsioOptions::listen if that name is
  /// loopback only on this machine.
  std::string reached_at() const;
  void start(Accepted accepted);
  void stop();

 private:
  void accept();

  const AsioOptions& options_;
  bool by_name_ = false;  ///< other nodes use the name in options_.listen
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  Accepted accepted_;
};

}  // namespace poseidon::comm
