#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/node.h"
#include "core/fields.h"
#include "core/json.h"

/// The messages that nodes send each other besides payload. Each is the body of a control frame: a
/// JSON object whose "type" names the message. docs/wire-format.md states when each is sent.
namespace poseidon::comm {

/// A value that must be equal on all nodes that report it: {"threads", "2"}.
struct Fact {
  std::string name, value;
  bool operator==(const Fact&) const = default;
};

/// Member to coordinator: requests to take part in the job.
struct Join {
  static constexpr const char* kType = "join";
  Role role = Role::kWorker;
  int64_t wanted_rank = -1;  ///< -1: any
  std::string address;       ///< "host:port" at which the other nodes reach this member
  std::vector<Fact> facts;   ///< must equal the coordinator's
  void describe(Fields& fields);
};

/// Coordinator to member: admits the member to the job. Only the trainer interprets `job`.
struct Welcome {
  static constexpr const char* kType = "welcome";
  int64_t rank = 0;
  double timeout_s = 10;
  int64_t workers = 1, servers = 1;  ///< the most that the job may have
  Json job = Json::object();
  void describe(Fields& fields);
};

/// Coordinator to member: does not admit the member to the job.
struct Refused {
  static constexpr const char* kType = "refused";
  std::string why;
  void describe(Fields& fields);
};

/// Member to coordinator: the member has opened data and network. `facts` describe both.
struct Prepared {
  static constexpr const char* kType = "prepared";
  std::vector<Fact> facts;
  void describe(Fields& fields);
};

/// One node of the job, as all nodes know it.
struct RosterEntry {
  Role role = Role::kWorker;
  int64_t rank = 0;
  std::string address;
  /// The rank from the node's Welcome, which identifies it in every view; -1: equal to `rank`.
  int64_t member = -1;
};

/// Coordinator to worker: connect to the workers with which this worker measures its link. `to` and
/// `from` may be the same worker. All workers measure at once (comm/membership/link_probe.h).
struct Measure {
  static constexpr const char* kType = "measure";
  int64_t view = 1;
  std::vector<RosterEntry> roster;
  int64_t to = 0, from = 0;  ///< the workers to send to and to receive from, by rank
  void describe(Fields& fields);
};

/// Worker to coordinator: the worker is connected to its partners of the link measurement.
struct Met {
  static constexpr const char* kType = "met";
  void describe(Fields&) {}
};
/// Coordinator to worker: all workers are connected; start to measure.
struct Probe {
  static constexpr const char* kType = "probe";
  void describe(Fields&) {}
};

/// The result of a worker's link measurement.
struct LinkRate {
  double mbps = 0;                   ///< received, 10^6 bits/s
  double processor_ns_per_byte = 0;  ///< processor time of network I/O per byte, sent or received
};

/// Worker to coordinator: the link's rate.
struct Measured {
  static constexpr const char* kType = "measured";
  LinkRate rate;
  void describe(Fields& fields);
};

/// Coordinator to member: the view, its plan, and the ranks and addresses of all nodes in it.
struct Planned {
  static constexpr const char* kType = "planned";
  int64_t view = 1;
  std::vector<RosterEntry> roster;
  Json plan = Json::object();
  void describe(Fields& fields);
};

/// Member to coordinator: the member is connected to its peers and has its initial values.
struct Ready {
  static constexpr const char* kType = "ready";
  std::vector<int64_t> digest;  ///< a checksum for each tensor; empty for a server
  void describe(Fields& fields);
};

/// Coordinator to member: all members are ready; start.
struct Start {
  static constexpr const char* kType = "start";
  int64_t first_step = 0;
  void describe(Fields& fields);
};

/// Member to coordinator and back: a message of the trainer (losses, tests, traffic).
struct Note {
  static constexpr const char* kType = "note";
  std::string about;
  int64_t step = 0;  ///< steps done
  Json content = Json::object();
  void describe(Fields& fields);
};

/// Worker to coordinator: the activity of its compute thread. Only that thread reports it, about
/// once a second and at each change. Heartbeats show that a process lives; Progress shows that it
/// works.
struct Progress {
  static constexpr const char* kType = "progress";
  std::string doing;         ///< "testing"
  int64_t done = 0, of = 0;  ///< "120 of 500"; `of` 0: not counted
  std::string unit;          ///< "batches"
  bool waits = false;  ///< whether the worker waits for other nodes, and so does not delay them
  void describe(Fields& fields);
};

/// Between checkpoints the tensors are compared in this many groups, one group at a time.
inline constexpr int64_t kDigestTurns = 10;

/// Worker to coordinator: checksums of its tensors after `step` steps. With kAll they include the
/// sums in flight.
struct Digest {
  static constexpr const char* kType = "digest";
  static constexpr int64_t kAll = -1;
  int64_t step = 0;
  int64_t turn = kAll;          ///< kAll, or: the tensors whose index modulo kDigestTurns is this
  std::vector<int64_t> values;  ///< CRC-32C by tensor
  void describe(Fields& fields);
};

/// Coordinator to worker: requests the earliest step after which the worker can stop. The
/// coordinator sends it if the job must halt, or if joiners wait.
struct HaltQuery {
  static constexpr const char* kType = "halt_query";
  void describe(Fields&) {}
};
/// Worker to coordinator: the worker does not go beyond `step` until it receives a Halt or a Pause.
struct HaltOffer {
  static constexpr const char* kType = "halt_offer";
  int64_t step = 0;
  void describe(Fields& fields);
};
/// Coordinator to worker: end after `step` steps.
struct Halt {
  static constexpr const char* kType = "halt";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Coordinator to worker: wait after `step` steps for joiners. The view ends there.
struct Pause {
  static constexpr const char* kType = "pause";
  int64_t step = 0;
  void describe(Fields& fields);
};
/// Worker to coordinator: the worker waits and has made all updates of the first `step` steps.
struct Paused {
  static constexpr const char* kType = "paused";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Why a job, or a view of it, ends early: a node failure or a joiner.
struct NodeFailure {
  enum class Kind : uint8_t {
    kPeer,      ///< a node failed: broken connection, silence, a frame that violates the protocol
    kStall,     ///< a node answers but makes no progress
    kDiverged,  ///< replicas differ; `who` is the coordinator if the wrong replica is unknown
    kError,     ///< a node reports a local error: a loss that is not finite, a full disk
    kLeft,      ///< the process of a node was asked to end
    kJoined,    ///< no failure: the view ends so that a node can join
    /// Two nodes never reached each other. In a member's report `why` is the transport's reason,
    /// and `who` the called node. From the coordinator `why` is a complete sentence.
    kUnreached,
  };
  Kind kind = Kind::kPeer;
  NodeId who;
  std::string address;
  std::string why;
  int64_t step = 0;     ///< the current step, counted from 1; 0: before the first
  std::string awaited;  ///< "worker 1 awaited the sum of \"conv1\" of step 12 from it", or ""

  /// "worker 2 (10.0.0.3:7000) failed in step 12: no heartbeat for 10 s; worker 1 awaited ..."
  std::string message() const;
  bool operator==(const NodeFailure&) const = default;
};

/// Member to coordinator: a peer has failed, the member has a local error, or the member was asked
/// to end.
struct Lost {
  static constexpr const char* kType = "lost";
  NodeFailure failure;
  void describe(Fields& fields);
};

/// Coordinator to member: the job has failed, or continues without this member. The member stops.
struct Failed {
  static constexpr const char* kType = "failed";
  NodeFailure failure;
  void describe(Fields& fields);
};

/// Coordinator to member: the view ends because of `failure` or a joiner (kJoined), and the job
/// continues in the next view. The member disconnects from its peers and stops computing. When all
/// members have done this, the coordinator sends the next plan.
struct Regroup {
  static constexpr const char* kType = "regroup";
  NodeFailure failure;
  void describe(Fields& fields);
};

/// Member to coordinator: the member has left the view. A worker has completed `step` steps. Some
/// of its layers may already have the values of the next step.
struct LeftView {
  static constexpr const char* kType = "left_view";
  int64_t step = 0;
  int64_t least = 0;  ///< the earliest step to which the worker can revert
  void describe(Fields& fields);
};

/// Member to coordinator: the member has stopped. A worker has completed `step` steps.
struct Stopped {
  static constexpr const char* kType = "stopped";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Coordinator to worker: send the checkpoint of `step`, the last step that this worker has
/// completed.
struct Save {
  static constexpr const char* kType = "save";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Worker to coordinator: the worker has sent all tensors of the requested checkpoint before this
/// message.
struct Saved {
  static constexpr const char* kType = "saved";
  int64_t step = 0;
  void describe(Fields& fields);
};
/// Worker to coordinator: the worker cannot send the requested checkpoint. The coordinator may
/// request it from another worker.
struct CannotSave {
  static constexpr const char* kType = "cannot_save";
  std::string why;
  void describe(Fields& fields);
};
/// Member to coordinator: the member has completed its work in the job.
struct Finished {
  static constexpr const char* kType = "finished";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Coordinator to server: all workers are done; send the last reports, then Finished.
struct Conclude {
  static constexpr const char* kType = "conclude";
  void describe(Fields&) {}
};

/// Coordinator to member: the job is over for all members.
struct Dismissed {
  static constexpr const char* kType = "dismissed";
  void describe(Fields&) {}
};

/// Encodes a message as the body of a control frame.
template <class Message>
std::string encode_message(Message message) {
  Json json = write_fields([&](Fields& fields) { message.describe(fields); });
  json["type"] = Message::kType;
  return json.dump();
}

/// The message in a control frame's body.
class ControlMessage {
 public:
  /// Throws ConfigError for a body that is no message.
  explicit ControlMessage(std::span<const std::byte> body);

  template <class Message>
  bool is() const {
    return type_ == Message::kType;
  }
  /// Throws ConfigError for keys that are missing or unknown, and for values of the wrong type or
  /// out of range.
  template <class Message>
  Message as() const {
    Message message;
    read_fields(json_, {"a \"" + type_ + "\" message", ""},
                [&](Fields& fields) { message.describe(fields); });
    return message;
  }
  const std::string& type() const { return type_; }

 private:
  std::string type_;
  Json json_;
};

}  // namespace poseidon::comm
