#pragma once

#include <string>

/// Reasons why one node does not reach another, and what users do about them. Transports, members
/// and the coordinator share these words.
namespace poseidon::comm {

inline constexpr const char* kCallRefused = "connection refused";
inline constexpr const char* kNoAnswer = "no answer within ";  ///< a time follows
inline constexpr const char* kUnknownName = "its name cannot be resolved";
inline constexpr const char* kLoopbackName = "its name resolves to loopback here";
inline constexpr const char* kOnlySmallMessages =
    "small messages arrive, large ones do not (path MTU?)";

/// Whether a host, as in an address without its port, is one that only its own machine reaches:
/// "127.0.0.1", "[::1]", "localhost".
bool is_loopback_host(const std::string& host);

/// The question for whoever reads that a coordinator is not reached, in parentheses; "" where the
/// reason is enough: " (is it started there, and does the firewall pass port 7000?)".
std::string question_about(const std::string& why, const std::string& address);

/// Whether a reason says only that the connection has ended, and not why.
bool is_mere_end(const std::string& why);

/// What to do where the host `caller` does not reach `address` for the reason `why`:
/// "open port 7002 on node2, or give --advertise an address that node1 reaches".
std::string remedy_of(const std::string& why, const std::string& address,
                      const std::string& caller);

}  // namespace poseidon::comm
