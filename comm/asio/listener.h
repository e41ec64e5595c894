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

  /// Binds and listens. Throws as AsioTransport's constructor does.
  Listener(asio::io_context& io, const AsioOptions& options);
  /// The address where it listens: "127.0.0.1:40123".
  std::string address() const;
  /// Where others reach it: that address; or the name that was given, where the name is loopback on
  /// this machine only.
  std::string reached_at() const;
  void start(Accepted accepted);
  void stop();

 private:
  void accept();

  const AsioOptions& options_;
  bool by_name_ = false;  ///< others reach it by the name that was given
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  Accepted accepted_;
};

}  // namespace poseidon::comm
