#pragma once

#include <string>

/// Reasons why one node cannot reach another, and the remedies for users. Transports, members and
/// the coordinator share these texts.
namespace poseidon::comm {

inline constexpr const char* kCallRefused = "connection refused";
inline constexpr const char* kNoAnswer = "no answer within ";  ///< a time follows
inline constexpr const char* kUnknownName = "its name cannot be resolved";
inline constexpr const char* kLoopbackName = "its name resolves to loopback here";
inline constexpr const char* kRefusedByPeer = "refused by the peer: ";  ///< a reason follows
inline constexpr const char* kOnlySmallMessages =
    "small messages arrive, large ones do not (path MTU?)";

/// Whether `host`, an address without its port, is reachable only from its own machine:
/// "127.0.0.1", "[::1]", "localhost".
bool is_loopback_host(const std::string& host);

/// A hint in parentheses for a user whose process cannot reach the coordinator: " (is it running
/// there, and does the firewall allow port 7000?)". Returns "" if the reason needs no hint.
std::string question_about(const std::string& why, const std::string& address);

/// Whether a reason states only that the connection ended, and not why.
bool is_mere_end(const std::string& why);

/// The remedy if the host `caller` cannot reach `address` for the reason `why`: "open port 7002 on
/// node2, or set --advertise to an address that node1 can reach". An empty `caller` stands for all
/// other nodes. Returns "" if the peer has answered and its reason states the remedy itself.
std::string remedy_of(const std::string& why, const std::string& address,
                      const std::string& caller);

}  // namespace poseidon::comm
