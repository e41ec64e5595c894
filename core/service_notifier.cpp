#include "core/service_notifier.h"

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "core/error.h"
#include "core/printable.h"

namespace poseidon {

ServiceNotifier::ServiceNotifier(const std::string& address) {
  const bool is_abstract = address.starts_with("@");
  // A path needs a terminating zero byte. A name in the abstract namespace does not.
  const size_t most = sizeof address_.sun_path - (is_abstract ? 0 : 1);
  if (!(is_abstract || address.starts_with("/")) || address.size() < 2 || address.size() > most)
    throw ConfigError(text("NOTIFY_SOCKET: expected an absolute path, or \"@\" and a name, of ",
                           "at most ", most, " bytes, got \"", printable(address), "\""));
  socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (socket_.number() < 0)
    throw RunError(text("NOTIFY_SOCKET: cannot create a socket: ", std::strerror(errno)));
  address_.sun_family = AF_UNIX;
  std::memcpy(address_.sun_path, address.data(), address.size());
  if (is_abstract) address_.sun_path[0] = '\0';
  address_bytes_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() +
                                          (is_abstract ? 0 : 1));
}

/// Escapes control characters, because `line` can contain a job's name from another machine. A
/// newline in this name would start a new assignment.
bool ServiceNotifier::status(std::string_view line) const {
  return send("STATUS=" + printable(line));
}

bool ServiceNotifier::send(std::string_view assignment) const {
  const ssize_t sent =
      ::sendto(socket_.number(), assignment.data(), assignment.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&address_), address_bytes_);
  return sent == static_cast<ssize_t>(assignment.size());
}

}  // namespace poseidon
