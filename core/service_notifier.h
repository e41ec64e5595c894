#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "core/file.h"

namespace poseidon {

/// Reports state to the service manager that started this process, for example systemd, with
/// datagrams as in sd_notify(3). Each call returns true if the datagram was sent. No call blocks:
/// if the manager's queue is full, the datagram is dropped. Any thread may call any function.
class ServiceNotifier {
 public:
  /// `address` has the form of NOTIFY_SOCKET: an absolute path, or "@" and a name in the abstract
  /// namespace. Throws ConfigError for other forms, and RunError if no socket can be created.
  explicit ServiceNotifier(const std::string& address);

  bool ready() const { return send("READY=1"); }
  bool stopping() const { return send("STOPPING=1"); }
  /// Reports that the process makes progress (watchdog heartbeat).
  bool alive() const { return send("WATCHDOG=1"); }
  /// Sends the current activity as one line of text. The service manager shows this line to users.
  bool status(std::string_view line) const;

 private:
  bool send(std::string_view assignment) const;

  Descriptor socket_;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace poseidon
