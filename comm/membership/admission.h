#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

class Newcomers;

/// Describes the first fact that differs: "threads is 4, expected 2"; "" when nothing differs.
std::string difference(const std::vector<Fact>& expected, const std::vector<Fact>& got);

/// The way from an open connection to a member with a rank.
class Admission {
 public:
  /// Both must outlive it; `newcomers` takes those who come when the job has begun.
  Admission(CoordinatedJob& job, Newcomers& newcomers) : job_(job), newcomers_(newcomers) {}

  /// Members may join from now on.
  void begin();
  void opened(ConnectionId connection, const PeerIdentity& peer);
  /// Gives a rank to the node behind this connection, or says why not. Ignores a connection that is
  /// not open, or a member's.
  void join(ConnectionId connection, const Join& join);
  /// Sends the node away that is behind the open connection of no member.
  void refuse(ConnectionId connection, const std::string& why);
  /// The connection is no more.
  void forget(ConnectionId connection) { strangers_.erase(connection); }
  /// Sends everybody away who has not become a member in time.
  void watch();
  /// Whether the job does not wait any longer for those who are missing, and goes on to its
  /// preparation.
  bool begins_without_missing();
  /// Sends everybody away who has not become a member.
  void close();

  /// Who has not joined yet: "2 workers and 1 server"; "" when all are there.
  std::string missing() const;
  /// The first node that has not joined, when not all are there.
  std::optional<NodeId> first_missing() const;

 private:
  /// An open connection to a node that is no member, or not yet.
  struct Stranger {
    Role role = Role::kWorker;  ///< as the handshake has proved it
    std::string address;
    Time since{0};
  };

  std::string objection(const Stranger& stranger, const Join& join) const;
  void refuse(ConnectionId connection, const std::string& address, const std::string& why);
  void refuse_oldest();
  void welcome(ConnectionId connection, const Join& join, NodeId node);
  std::optional<uint16_t> free_rank(Role role, int64_t wanted) const;

  CoordinatedJob& job_;
  Newcomers& newcomers_;
  std::map<ConnectionId, Stranger> strangers_;
  Time begun_at_{0};
};

}  // namespace poseidon::comm
