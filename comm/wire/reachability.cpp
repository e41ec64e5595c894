#include "comm/wire/reachability.h"

#include <algorithm>

#include "comm/wire/address.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// Returns "" for an address without a port.
std::string port_of(const std::string& address) {
  return address.substr(std::min(address.size(), host_of(address).size() + 1));
}

bool has(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

/// Whether the peer has answered, so that neither firewall nor address is the reason.
bool has_answered(const std::string& why) {
  return why.starts_with(kRefusedByPeer) || has(why, "TLS") || has(why, "secret");
}

}  // namespace

bool is_loopback_host(const std::string& host) {
  return host.starts_with("127.") || host == "[::1]" || host == "::1" || host == "localhost" ||
         host.starts_with("localhost.");
}

std::string question_about(const std::string& why, const std::string& address) {
  const std::string port = port_of(address);
  if (why == kCallRefused)
    return text(" (is it running there, and does the firewall allow port ", port, "?)");
  if (why.starts_with(kNoAnswer)) return text(" (does the firewall allow port ", port, "?)");
  return "";
}

bool is_mere_end(const std::string& why) {
  for (const char* words : {"connection closed by the peer", "connection closed by peer",
                            "connection reset", "broken pipe", "no heartbeat"})
    if (why.starts_with(words)) return true;
  return false;
}

std::string remedy_of(const std::string& why, const std::string& address,
                      const std::string& caller) {
  const std::string host = host_of(address);
  const std::string reached = text("set --advertise to an address that ",
                                   caller.empty() ? "the other nodes" : caller, " can reach");
  if (has(why, " was called, this is ")) return "set a different --advertise on each node";
  if (has(why, kOnlySmallMessages))
    return "set the same MTU on all links between the two nodes, or allow ICMP \"fragmentation "
           "needed\"";
  if (has(why, kUnknownName))
    return text("make ", host, " known to ", caller, " (DNS or /etc/hosts), or ", reached);
  if (has(why, kLoopbackName) && host != caller)
    return text("correct ", host, " in /etc/hosts of ", caller, ", or ", reached);
  if (has_answered(why)) return "";
  if (is_loopback_host(host))
    return text(host,
                " is loopback, which other machines cannot reach: start that node with --listen ",
                host.starts_with('[') ? "[::]" : "0.0.0.0", ":PORT, and ", reached);
  return text("open port ", port_of(address), " on ", host, ", or ", reached);
}

}  // namespace poseidon::comm
