#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "comm/wire/handshake.h"
#include "comm/wire/transport.h"
#include "core/log.h"

namespace poseidon::comm {

/// Limits of what strangers can cost, and of how long anything is waited for.
struct TransportLimits {
  std::chrono::milliseconds connect{5000};    ///< until a connection is open
  std::chrono::milliseconds handshake{5000};  ///< until its other end has proved itself
  std::chrono::milliseconds linger{1000};     ///< in close(), until urgent frames have been sent
  size_t unproved = 256;  ///< accepted connections that have not proved who they are
};

/// PEM files by which a node proves itself and knows its peers, all or none.
struct TlsFiles {
  std::string certificate = {};  ///< this node's, with those between it and the authority's
  std::string key = {};          ///< of the certificate, without a password
  std::string authority = {};    ///< who must have signed the peers' certificates
  bool given() const { return !certificate.empty() || !key.empty() || !authority.empty(); }
};

/// Transports of one process that reach each other without a socket.
class Neighbours;
std::shared_ptr<Neighbours> make_neighbours();

struct AsioOptions {
  std::string listen = {};  ///< "HOST:PORT", port 0: any that is free; "": nobody can connect
  /// Where others reach it, "HOST:PORT"; port 0 stands for the one where it listens, "" for the
  /// whole address where it listens. Where `listen` names this machine and the name is loopback
  /// here, as in Debian's /etc/hosts, "" stands for the name.
  std::string advertise = {};
  std::shared_ptr<Neighbours> neighbours = nullptr;  ///< this transport's, if it has any
  PeerIdentity self = {};  ///< identity by which connections are accepted, until present_as()
  Secret secret = {};
  TlsFiles tls = {};      ///< with them all connections go by TLS 1.3
  bool insecure = false;  ///< allows listening beyond loopback without secret and TLS
  /// Of bulk frames by sockets, 10^6 bits/s, over all transports that share the neighbours; of
  /// several limits the least counts. 0: none.
  double bandwidth_limit_mbps = 0;
  TransportLimits limits = {};
  std::shared_ptr<Log> log = std::make_shared<SilentLog>();
  /// Called once with what a machine threw, in the I/O thread, which then ends. Without it the
  /// program terminates.
  std::function<void(std::exception_ptr)> on_failure = {};
};

/// A Transport over TCP, and by memory to its neighbours: one I/O thread, in which the machine is
/// called. The calls of Transport and present_as() are for that thread, post() for any, start(),
/// stop() and the destructor for the thread that made the object.
class AsioTransport final : public Transport {
 public:
  /// Listens, but accepts nobody before start(). Throws ConfigError for addresses, TLS files
  /// and listening beyond loopback without secret and TLS; RunError when the port is taken.
  explicit AsioTransport(AsioOptions options);
  /// Calls stop().
  ~AsioTransport() override;

  /// The address where it listens, "127.0.0.1:40123", with the chosen port; "" when it does not.
  const std::string& address() const;
  /// The address where others reach it; "" when it does not listen.
  const std::string& advertised() const;

  /// Whether it was made with neighbours, with which it shares the host's link.
  bool has_neighbours() const;

  /// Starts the I/O thread. The machine must live until stop() has returned.
  void start(Machine& machine);
  /// Closes all connections as close() does, and ends the thread, at most limits.linger later; a
  /// name that is being looked up may take longer. The machine is not called any more; functions
  /// posted before still run. A second call does nothing.
  void stop();
  /// Runs `function` in the I/O thread, but not after stop().
  void post(std::function<void()> function);

  /// Sets AsioOptions::bandwidth_limit_mbps; called before bulk frames are sent.
  void limit_bandwidth(double mbps);

  Time now() const override;
  Time processor_time() const override;
  void present_as(const PeerIdentity& self) override;
  ConnectionId connect(const std::string& address, const PeerIdentity& self,
                       NodeId called) override;
  void send(ConnectionId to, const FrameHeader& header, Payload payload,
            Priority priority) override;
  void drop_bulk(ConnectionId connection) override;
  void close(ConnectionId connection) override;
  void wake_at(Time when) override;

 private:
  class Driver;
  std::unique_ptr<Driver> driver_;
};

}  // namespace poseidon::comm
