#pragma once

#include <map>
#include <string>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Nodes that the coordinator admitted and that failed before their first step: the number of
/// failures in a row, by host or by address. A node that fails repeatedly costs the others time, so
/// each failure doubles the time for which its host is refused.
class JoinBackoff {
 public:
  /// Returns the number of failures in a row, with this one. `wait` is the time after the first
  /// failure.
  int note(const std::string& from, const std::string& why, Time now, Time wait);
  /// A node from there has become a working member.
  void forget(const std::string& from) { failures_.erase(from); }
  /// Why a node from there is refused now; "" if it may join.
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
