#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

class Joiners;

/// Describes the first difference between the facts: "threads is 4, expected 2". A fact may also be
/// missing or not expected. Returns "" if all are equal.
std::string difference(const std::vector<Fact>& expected, const std::vector<Fact>& got);

/// The admission of nodes: from an open connection to a member with a rank.
class Admission {
 public:
  /// Both must outlive this object. `joiners` handles nodes that arrive after the job has begun.
  Admission(CoordinatedJob& job, Joiners& joiners) : job_(job), joiners_(joiners) {}

  /// Starts to admit members.
  void begin();
  void opened(ConnectionId connection, const PeerIdentity& peer);
  /// Assigns a rank to the node of this connection, or refuses it with a reason. Once the job no
  /// longer gathers members, admits the node as a joiner instead. Ignores a connection that is not
  /// open, or whose node has been admitted.
  void join(ConnectionId connection, const Join& join);
  /// Refuses the node of an open connection that belongs to no member.
  void refuse(ConnectionId connection, const std::string& why);
  /// Called when the connection has ended.
  void forget(ConnectionId connection) { pending_joins_.erase(connection); }
  /// Refuses all nodes that have not requested to join within CoordinatorOptions::timeout.
  void watch();
  /// If CoordinatorOptions::gather has passed and enough members have joined, starts the
  /// preparation without the missing members. Returns whether the preparation was started.
  bool begins_without_missing();
  /// Refuses all nodes that have not requested to join, because the job has ended.
  void close();

  /// The numbers of members that have not joined yet: "2 workers and 1 server"; "" if all have
  /// joined.
  std::string missing() const;
  /// The first member that has not joined; nullopt: all have joined.
  std::optional<NodeId> first_missing() const;

 private:
  /// An open connection of a node that has not requested to join yet.
  struct PendingJoin {
    Role role = Role::kWorker;  ///< as proved in the handshake
    std::string address;
    Time since{0};
  };

  std::string objection(const PendingJoin& pending_join, const Join& join) const;
  void refuse(ConnectionId connection, const std::string& address, const std::string& why);
  void refuse_oldest();
  void welcome(ConnectionId connection, const Join& join, NodeId node);
  std::optional<uint16_t> free_rank(Role role, int64_t wanted) const;

  CoordinatedJob& job_;
  Joiners& joiners_;
  std::map<ConnectionId, PendingJoin> pending_joins_;
  Time begun_at_{0};
};

}  // namespace poseidon::comm
