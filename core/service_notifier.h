#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

#include "core/file.h"

namespace poseidon {

/// Reports to the service manager that has started this process, systemd for example, by datagrams
/// as sd_notify(3) documents them. Every call returns whether the datagram was taken: one for which
/// the manager has no room now is not waited for. All calls may be made from any thread.
class ServiceNotifier {
 public:
  /// `address` as in NOTIFY_SOCKET: a path from the root, or "@" and a name in the abstract
  /// namespace. Throws ConfigError for any other, RunError when the system has no socket.
  explicit ServiceNotifier(const std::string& address);

  bool ready() const { return send("READY=1"); }
  bool stopping() const { return send("STOPPING=1"); }
  /// The process makes progress.
  bool alive() const { return send("WATCHDOG=1"); }
  /// One line for a person who asks what the process does.
  bool status(std::string_view line) const;

 private:
  bool send(std::string_view assignment) const;

  Descriptor socket_;
  sockaddr_un address_{};
  socklen_t address_bytes_ = 0;
};

}  // namespace poseidon
