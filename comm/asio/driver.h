#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "comm/wire/congestion_control.h"
#include "comm/wire/handshake.h"
#include "comm/wire/transport.h"
#include "core/log.h"

namespace poseidon::comm {

/// Limits on the cost of unauthenticated peers, and on waits.
struct TransportLimits {
  std::chrono::milliseconds connect{5000};    ///< time limit until a connection is open
  std::chrono::milliseconds handshake{5000};  ///< time limit until the peer is authenticated
  std::chrono::milliseconds linger{1000};  ///< time limit of close(), until urgent frames are sent
  size_t unauthenticated = 256;            ///< accepted connections that are not authenticated yet
};

/// PEM files with which a node proves its identity and verifies its peers. Either all three are
/// set, or none.
struct TlsFiles {
  std::string certificate = {};  ///< this node's certificate, and its chain up to the authority
  std::string key = {};          ///< the private key of `certificate`, without a password
  std::string authority = {};    ///< the authority that must have signed the peers' certificates
  bool given() const { return !certificate.empty() || !key.empty() || !authority.empty(); }
};

/// The in-process transport: transports of one process that reach each other without a socket.
class InProcessHub;
std::shared_ptr<InProcessHub> make_in_process_hub();

struct AsioOptions {
  std::string listen = {};  ///< "HOST:PORT", port 0: any free port; "": does not listen
  /// The address for other nodes, "HOST:PORT". Port 0 means the listening port. "" means the
  /// complete listening address, with one exception. If the host name in `listen` is loopback only
  /// on this machine (as in Debian's /etc/hosts), "" means that name with the listening port.
  std::string advertise = {};
  std::shared_ptr<InProcessHub> in_process_hub = nullptr;  ///< null: sockets only
  PeerIdentity self = {};  ///< identity with which connections are accepted, until present_as()
  Secret secret = {};
  TlsFiles tls = {};      ///< if given, all connections use TLS 1.3
  bool insecure = false;  ///< permits listening beyond loopback without secret and TLS
  /// Limit on the rate of bulk frames over sockets, 10^6 bits/s; 0: no limit. Transports that share
  /// `in_process_hub` share one link, which uses the smallest of their limits.
  double bandwidth_limit_mbps = 0;
  CongestionControl congestion_control = CongestionControl::kAuto;
  TransportLimits limits = {};
  std::shared_ptr<Log> log = std::make_shared<SilentLog>();
  /// Called in the I/O thread with the exception that a machine has thrown. The thread then ends.
  /// If `on_failure` is empty, the exception terminates the program.
  std::function<void(std::exception_ptr)> on_failure = {};
};

/// A Transport over TCP, and through memory to other transports of the process. It has one I/O
/// thread, which calls the machine. Only that thread may call the functions of Transport. Any
/// thread may call post(). The thread that made the object calls start(), stop() and the
/// destructor.
class AsioTransport final : public Transport {
 public:
  /// Listens, but accepts no connection before start(). Throws ConfigError for invalid addresses
  /// and TLS files, and for listening beyond loopback without secret and TLS. Throws RunError if
  /// the port is in use.
  explicit AsioTransport(AsioOptions options);
  /// Calls stop().
  ~AsioTransport() override;

  /// The address at which this transport listens, with the chosen port: "127.0.0.1:40123". Returns
  /// "" if it does not listen.
  const std::string& address() const;
  /// The address at which other nodes reach this transport; "" if it does not listen.
  const std::string& advertised() const;

  /// Whether AsioOptions::in_process_hub is set. Transports with the same hub share the host's
  /// link.
  bool has_in_process_hub() const;

  /// Starts the I/O thread. The machine must live until stop() has returned.
  void start(Machine& machine);
  /// Closes all connections as close() does, and ends the thread at most TransportLimits::linger
  /// later; a pending name look-up may take longer. The transport no longer calls the machine, but
  /// still runs the functions posted before. A second call does nothing.
  void stop();
  /// Runs `function` in the I/O thread, but not after stop().
  void post(std::function<void()> function);

  /// Sets AsioOptions::bandwidth_limit_mbps. Call it before bulk frames are sent.
  void limit_bandwidth(double mbps);
  /// Sets AsioOptions::congestion_control. Open connections follow within about a second. Called in
  /// the I/O thread, or before start().
  void control_congestion(CongestionControl setting);

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
