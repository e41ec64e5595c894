#pragma once

#include <map>
#include <string>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Nodes that the coordinator admitted, and that failed before their first step: how often in a
/// row, by host or by address. A node that fails again and again costs the others time, so each
/// failure doubles the time for which its host is refused.
class FailedJoins {
 public:
  /// Returns how many failures in a row this one makes. `wait` is that of the first.
  int note(const std::string& from, const std::string& why, Time now, Time wait);
  /// A node from there takes part.
  void forget(const std::string& from) { failures_.erase(from); }
  /// Why a node from there is refused now; "" where it may join.
  std::string objection(const std::string& from, Time now) const;

 private:
  struct Failure {
    int count = 0;
    std::string why;  ///< of the last one
    Time at{0}, refused_until{0};
  };
  void make_room();

  std::map<std::string, Failure> failures_;
};

}  // namespace poseidon::comm
