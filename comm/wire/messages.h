#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/wire/node.h"
#include "core/fields.h"
#include "core/json.h"

/// The messages that nodes send each other besides payload: the bodies of control frames, each a
/// JSON object whose "type" names the message. docs/wire-format.md tells when each is sent.
namespace poseidon::comm {

/// A value that must be the same on all workers: {"threads", "2"}.
struct Fact {
  std::string name, value;
  bool operator==(const Fact&) const = default;
};

/// Member to coordinator: asks to take part.
struct Join {
  static constexpr const char* kType = "join";
  Role role = Role::kWorker;
  int64_t wanted_rank = -1;  ///< -1: any
  std::string address;       ///< "host:port" where the other nodes reach it
  std::vector<Fact> facts;   ///< must equal the coordinator's
  void describe(Fields& fields);
};

/// Coordinator to member: the member takes part. What `job` holds is the trainer's affair.
struct Welcome {
  static constexpr const char* kType = "welcome";
  int64_t rank = 0;
  double timeout_s = 10;
  int64_t workers = 1, servers = 1;  ///< the most that the job may have
  Json job = Json::object();
  void describe(Fields& fields);
};

/// Coordinator to member: the member does not take part.
struct Refused {
  static constexpr const char* kType = "refused";
  std::string why;
  void describe(Fields& fields);
};

/// Member to coordinator: data and network are open, and `facts` follow from them.
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
  /// The rank that it was welcomed with, by which it knows itself in every view; -1: its rank.
  int64_t member = -1;
};

/// Coordinator to worker: connect to the workers with which to measure the link; all workers do so
/// at once (comm/membership/link_probe.h).
struct Measure {
  static constexpr const char* kType = "measure";
  int64_t view = 1;
  std::vector<RosterEntry> roster;
  int64_t to = 0, from = 0;  ///< the workers to send to and to receive from, by rank
  void describe(Fields& fields);
};

/// Worker to coordinator: the worker is connected to those that it measures the link with.
struct Met {
  static constexpr const char* kType = "met";
  void describe(Fields&) {}
};
/// Coordinator to worker: all workers are connected, so begin to measure.
struct Probe {
  static constexpr const char* kType = "probe";
  void describe(Fields&) {}
};

/// What a worker has measured of its link.
struct LinkRate {
  double mbps = 0;                   ///< of what came in, 10^6 bits a second
  double processor_ns_per_byte = 0;  ///< processor time of the network, sent and received bytes
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

/// Member to coordinator: the member is connected to its peers and has its first values.
struct Ready {
  static constexpr const char* kType = "ready";
  std::vector<int64_t> digest;  ///< a checksum for each tensor; empty for a server
  void describe(Fields& fields);
};

/// Coordinator to member: all members are ready, so begin.
struct Start {
  static constexpr const char* kType = "start";
  int64_t first_step = 0;
  void describe(Fields& fields);
};

/// Member to coordinator and back: a message of the trainer's own (losses, tests, traffic).
struct Note {
  static constexpr const char* kType = "note";
  std::string about;
  int64_t step = 0;  ///< steps done
  Json content = Json::object();
  void describe(Fields& fields);
};

/// Worker to coordinator: what its computing thread does, reported by that thread alone, about once
/// a second and when it turns to something else. Heartbeats show that a process lives, this that it
/// works.
struct Progress {
  static constexpr const char* kType = "progress";
  std::string doing;         ///< "testing"
  int64_t done = 0, of = 0;  ///< "120 of 500"; not counted where `of` is 0
  std::string unit;          ///< "batches"
  bool waits = false;        ///< it waits for others, so nobody need wait for it
  void describe(Fields& fields);
};

/// Between checkpoints tensors are compared in so many turns.
inline constexpr int64_t kDigestTurns = 10;

/// Worker to coordinator: checksums of its parameters and optimizer state after `step` steps.
struct Digest {
  static constexpr const char* kType = "digest";
  static constexpr int64_t kAll = -1;
  int64_t step = 0;
  int64_t turn =
      kAll;  ///< those whose index leaves this when it is divided by kDigestTurns; or all
  std::vector<int64_t> values;  ///< CRC-32C by tensor
  void describe(Fields& fields);
};

/// Coordinator to worker: how many steps must you do? The job is to halt, or others are to join.
struct HaltQuery {
  static constexpr const char* kType = "halt_query";
  void describe(Fields&) {}
};
/// Worker to coordinator: the worker will not go beyond `step` until it gets a Halt or a Pause.
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

/// Coordinator to worker: wait behind `step` steps, since others join. The view ends there.
struct Pause {
  static constexpr const char* kType = "pause";
  int64_t step = 0;
  void describe(Fields& fields);
};
/// Worker to coordinator: it waits, and has made all updates of `step` steps.
struct Paused {
  static constexpr const char* kType = "paused";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Why a job, or a view of it, ends before its time.
struct Loss {
  enum class Kind : uint8_t {
    kPeer,    ///< a node is gone: broken connection, silence, a frame against the protocol
    kStall,   ///< a node answers but makes no progress
    kDrift,   ///< replicas differ; `who` is the coordinator where nobody knows which is right
    kError,   ///< a node met an error of its own: a loss that is not finite, a disk that is full
    kLeft,    ///< a node was asked to end
    kJoined,  ///< no loss: a node joins, and a view ends for it
    /// Two nodes have never reached each other. In a member's report `why` is the transport's
    /// reason, and `who` the node that was called; from the coordinator `why` is a whole sentence.
    kUnreached,
  };
  Kind kind = Kind::kPeer;
  NodeId who;
  std::string address;
  std::string why;
  int64_t step = 0;     ///< the step under way, counted from 1; 0 before the first
  std::string awaited;  ///< "worker 1 awaited the sum of \"conv1\" of step 12 from it", or ""

  /// "worker 2 (10.0.0.3:7000) was lost in step 12: no sign of life for 10 s; worker 1 awaited ..."
  std::string message() const;
  bool operator==(const Loss&) const = default;
};

/// Member to coordinator: the member has lost a peer, or met an error of its own.
struct Lost {
  static constexpr const char* kType = "lost";
  Loss loss;
  void describe(Fields& fields);
};

/// Coordinator to member: the job has failed; end it.
struct Failed {
  static constexpr const char* kType = "failed";
  Loss loss;
  void describe(Fields& fields);
};

/// Coordinator to member: the view has ended by this loss, or for somebody who joins, and the job
/// goes on in another one. The member leaves its peers and ceases to compute; when all have, the
/// next view's plan comes.
struct Regroup {
  static constexpr const char* kType = "regroup";
  Loss loss;
  void describe(Fields& fields);
};

/// Member to coordinator: it has left the view; a worker has completed `step` steps, and may hold
/// values of a further one.
struct LeftView {
  static constexpr const char* kType = "left_view";
  int64_t step = 0;
  int64_t least = 0;  ///< the earliest step that it can go back to
  void describe(Fields& fields);
};

/// Member to coordinator: it has ceased; a worker has completed `step` steps.
struct Stopped {
  static constexpr const char* kType = "stopped";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Coordinator to worker: send the checkpoint of your last complete step.
struct Save {
  static constexpr const char* kType = "save";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Worker to coordinator: all tensors of that checkpoint have been sent before this.
struct Saved {
  static constexpr const char* kType = "saved";
  int64_t step = 0;
  void describe(Fields& fields);
};
/// Worker to coordinator: the worker cannot send that checkpoint; another one may.
struct CannotSave {
  static constexpr const char* kType = "cannot_save";
  std::string why;
  void describe(Fields& fields);
};
/// Member to coordinator: the member's part in the job is done.
struct Finished {
  static constexpr const char* kType = "finished";
  int64_t step = 0;
  void describe(Fields& fields);
};

/// Coordinator to server: all workers are done; send the last reports, and then that you are done.
struct Conclude {
  static constexpr const char* kType = "conclude";
  void describe(Fields&) {}
};

/// Coordinator to member: the job is over for everybody.
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
  /// Throws ConfigError for keys that are missing, unknown or of the wrong type.
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
