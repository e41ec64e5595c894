#pragma once

#include <optional>
#include <string>

#include "comm/membership/membership.h"

namespace poseidon::comm {

/// Joins a job: connects to the coordinator, and requests admission.
class JoinProtocol {
 public:
  explicit JoinProtocol(Membership& me) : me_(me) {}

  /// Starts to connect to the coordinator, after JoiningOptions::pause.
  void begin();
  /// Connects to the coordinator if an attempt is due.
  void wake();
  /// Requests admission from the coordinator, which has answered. `peer` is its proved identity.
  void found(const PeerIdentity& peer);
  /// Whether `peer` is the coordinator of the job that this node must not join again.
  bool avoids(const PeerIdentity& peer) const {
    return me_.options.avoided != JobId{} && me_.options.avoided == peer.job;
  }
  /// Called if a coordinator for which avoids() is true has answered. Closes the connection and
  /// tries again later, because another job may follow at that address.
  void stay_away();
  /// Handles a failed attempt: the coordinator cannot be reached, or is silent. Tries again later,
  /// unless JoiningOptions::join_timeout has passed.
  void missed(const std::string& why);
  void welcomed(const Welcome& welcome);
  void refused(const std::string& why);

 private:
  void seek();
  void seek_later(const std::string& why);

  Membership& me_;
  Time until_{0};           ///< a failed attempt after this time is the last one; 0: no limit
  std::optional<Time> at_;  ///< time of the next attempt; nullopt: none
  Time pause_{0};           ///< wait after the next failed attempt
  std::string last_;        ///< why the last attempt failed
};

}  // namespace poseidon::comm
