#pragma once

#include <map>
#include <string>

#include "comm/wire/transport.h"

namespace poseidon::comm {

/// Counts failures in a row of nodes that the coordinator admitted and that failed before their
/// first step. The key is a host, or the name and host of a member. A node that fails repeatedly
/// costs the members time, so each failure doubles the time for which its key is refused, up to one
/// hour.
class JoinBackoff {
 public:
  /// Records a failure, and returns the number of failures in a row. `wait`: how long nodes are
  /// refused after the first failure.
  int note(const std::string& from, const std::string& why, Time now, Time wait);
  /// Forgets the failures of `from`, because a node with this key has become a working member.
  void forget(const std::string& from) { failures_.erase(from); }
  /// Why a node with the key `from` is refused now; "" if it may join.
  std::string objection(const std::string& from, Time now) const;

 private:
  struct Failure {
    int count = 0;
    std::string why;  ///< reason of the last failure
    Time at{0}, refused_until{0};
  };
  void make_room();

  std::map<std::string, Failure> failures_;
};

}  // namespace poseidon::comm
