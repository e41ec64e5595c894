#pragma once

#include <optional>
#include <string>

#include "comm/membership/membership.h"

namespace poseidon::comm {

/// A member's way into the job: it looks for the coordinator, and asks to take part.
class Joining {
 public:
  explicit Joining(Membership& me) : me_(me) {}

  /// Begins to look for the coordinator, after the pause that the options give.
  void begin();
  /// Looks for the coordinator when that is due.
  void wake();
  /// The coordinator, which has proved to be `peer`, has answered.
  void found(const PeerIdentity& peer);
  /// Whether this is the coordinator of the job that the node does not join again.
  bool avoids(const PeerIdentity& peer) const {
    return me_.options.avoided != JobId{} && me_.options.avoided == peer.job;
  }
  /// That coordinator has answered: another job may follow it at the same address.
  void stay_away();
  /// The coordinator cannot be reached, or is silent.
  void missed(const std::string& why);
  void welcomed(const Welcome& welcome);
  void refused(const std::string& why);

 private:
  void seek();
  void seek_later(const std::string& why);

  Membership& me_;
  Time until_{0};           ///< 0: without a limit
  std::optional<Time> at_;  ///< when the next call is due, if one is
  Time pause_{0};           ///< behind the next failure
  std::string last_;        ///< why the last call failed
};

}  // namespace poseidon::comm
