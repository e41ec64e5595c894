#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/control_sender.h"
#include "comm/wire/messages.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A member as its coordinator knows it.
struct MemberRecord {
  NodeId node;
  uint16_t id = 0;  ///< the rank in its Welcome message
  ConnectionId connection = 0;
  std::string address;
  bool prepared = false, met = false, ready = false, finished = false;
  bool paused = false;      ///< a worker: it waits for joiners
  bool has_values = false;  ///< it has the job's values: it can continue in a new view, or save
  bool sent_proof = false;  ///< its MtuCheck proof, a large message, has arrived
  std::vector<Fact> facts;
  LinkRate link;  ///< as the member has measured it; mbps 0: not measured yet
  std::vector<int64_t> digest;
  int64_t step = 0;                ///< steps done, as last reported
  Progress doing;                  ///< its activity, as last reported
  Time progress_at{0};             ///< when it last reported progress
  std::optional<LeftView> left;    ///< set once it has left the view
  std::optional<int64_t> stopped;  ///< set once it has stopped: a worker's last complete step
  bool cannot_save = false;        ///< it cannot send the checkpoint of step `stopped`

  bool is_worker() const { return node.role == Role::kWorker; }
  /// Resets the record for a new view, which begins after `first_step` steps.
  void begin_view(int64_t first_step) {
    ready = finished = paused = false;
    digest.clear();
    step = first_step;
    left.reset();
  }
};

/// The members of a job, in order of NodeId, and messages to several of them.
class MemberTable {
 public:
  /// `sender` must outlive this object.
  explicit MemberTable(const ControlSender& sender) : sender_(sender) {}

  /// Returns nullptr if there is no such member.
  MemberRecord* find(ConnectionId connection);
  MemberRecord* find(NodeId node);
  bool contains(NodeId node) const { return records_.contains(node); }
  bool contains(ConnectionId connection) const;
  size_t count(Role role) const;
  /// The number of workers that lack the values of the job.
  size_t count_without_values() const;
  void add(const MemberRecord& record) { records_[record.node] = record; }
  void remove(NodeId node) { records_.erase(node); }
  void clear() { records_.clear(); }
  /// Renumbers the members of each role from 0 on, in their current order.
  void renumber();

  bool all(Role role, bool MemberRecord::*flag) const;
  bool all(bool MemberRecord::*flag) const;
  std::vector<RosterEntry> roster() const;
  /// Returns the hosts of the workers' addresses, by rank.
  std::vector<std::string> worker_hosts() const;

  template <class Message>
  void broadcast(const Message& message) const {
    const Payload encoded = payload_of(encode_message(message));
    for (const auto& [node, record] : records_) sender_.send(record.connection, encoded);
  }
  template <class Message>
  void broadcast(Role role, const Message& message) const {
    const Payload encoded = payload_of(encode_message(message));
    for (const auto& [node, record] : records_)
      if (node.role == role) sender_.send(record.connection, encoded);
  }

  auto begin() { return records_.begin(); }
  auto end() { return records_.end(); }
  auto begin() const { return records_.begin(); }
  auto end() const { return records_.end(); }

 private:
  const ControlSender& sender_;
  std::map<NodeId, MemberRecord> records_;
};

}  // namespace poseidon::comm
