#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

class Joiners;

/// Returns the first difference between two lists of facts as text: "threads is 4, expected 2". A
/// missing or unexpected fact is also a difference. Returns "" if all facts are equal.
std::string difference(const std::vector<Fact>& expected, const std::vector<Fact>& got);

/// The admission of nodes: from an open connection to a member with a rank.
class Admission {
 public:
  /// Both must outlive this object. `joiners` handles nodes that arrive when the job no longer
  /// gathers members.
  Admission(CoordinatedJob& job, Joiners& joiners) : job_(job), joiners_(joiners) {}

  /// Starts to admit members.
  void begin();
  void opened(ConnectionId connection, const PeerIdentity& peer);
  /// Assigns a rank to the node of this connection, or refuses it with a reason. Once the job no
  /// longer gathers members, admits the node as a joiner instead. Ignores a connection that is not
  /// open, or whose node has been admitted.
  void join(ConnectionId connection, const Join& join);
  /// Refuses the node of an open connection. The node must be neither a member nor a joiner.
  void refuse(ConnectionId connection, const std::string& why);
  /// Forgets a connection that has ended, or whose node is silent.
  void forget(ConnectionId connection) { pending_joins_.erase(connection); }
  /// Refuses all nodes that have not requested to join within CoordinatorOptions::timeout after
  /// they connected.
  void watch();
  /// If the job has gathered members for CoordinatorOptions::gather and enough members have joined,
  /// renumbers them and enters kPreparing. Returns whether it did so. The caller then starts the
  /// preparation.
  bool begins_without_missing();
  /// Refuses all nodes that have not requested to join, because the job has ended.
  void close();

  /// The numbers of members that have not joined yet: "2 workers and 1 server"; "" if all have
  /// joined.
  std::string missing() const;
  /// A member that has not joined: the lowest missing worker, else the lowest missing server.
  /// nullopt: all have joined.
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
