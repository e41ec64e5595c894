#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/membership/drift.h"
#include "comm/wire/liveness.h"
#include "comm/wire/messages.h"
#include "comm/wire/outlet.h"
#include "comm/wire/transport.h"
#include "comm/wire/words.h"

namespace poseidon::comm {

/// How a job came to its end.
struct Outcome {
  bool finished = false;
  Loss loss;                          ///< why it ended, unless finished
  std::optional<int64_t> saved_step;  ///< after a loss, the step of the checkpoint that came in
};

/// The coordinator's process as the protocol sees it: the trainer, or a simulation. Called by
/// Coordinator, in its thread.
class CoordinatorHost {
 public:
  virtual ~CoordinatorHost() = default;

  /// Returns what a member needs to open the job.
  virtual Json job() = 0;
  /// A node was not let in.
  virtual void refused(const std::string& address, const std::string& why) = 0;
  virtual void joined(NodeId node, const std::string& address) = 0;
  /// Whether the link between the workers is to be measured before the plan is made.
  virtual bool wants_link() { return false; }
  /// The slowest link's rate, rounded, in 10^6 bits a second. `one_host`: it is not a network.
  virtual void measured_link(double /*mbps*/, bool /*one_host*/) {}
  /// All members are prepared. If a worker keeps a later step of this run than the coordinator has,
  /// asks it for that step and returns its rank; Coordinator::fetched() is called when it has come.
  virtual std::optional<uint16_t> fetch_kept_step() { return std::nullopt; }
  /// Returns the plan to be published. All members are prepared, with these facts on all workers.
  virtual Json plan(const std::vector<Fact>& facts) = 0;
  /// Returns the steps done before the first of this run. Not called before plan().
  virtual int64_t first_step() { return 0; }
  /// All workers have the same first values and begin.
  virtual void started() = 0;
  virtual void noted(NodeId node, const Note& note) = 0;
  /// The digests of all workers after `step` steps have come and are equal.
  virtual void agreed(int64_t step, const std::vector<int64_t>& digest) = 0;
  /// Returns the name of the tensor at an index of the digests, for messages.
  virtual std::string tensor_name(size_t index) = 0;
  /// For the frames of a checkpoint from a worker.
  virtual Placement place(uint16_t worker, const FrameHeader& header) = 0;
  virtual void received(uint16_t worker, const FrameHeader& header) = 0;
  /// The job has failed; the members are being informed.
  virtual void failed(const Loss& loss) = 0;
  /// Whether a checkpoint of `step` is wanted from a survivor.
  virtual bool wants_checkpoint(int64_t step) = 0;
  /// All tensors of that checkpoint have come.
  virtual void saved(uint16_t worker, int64_t step) = 0;
  /// The tensors of that checkpoint will not come.
  virtual void not_saved(uint16_t /*worker*/, const std::string& /*why*/) {}
  /// A node makes no progress. Called now and then before it counts as stalled, and when the end of
  /// the job no longer waits for it.
  virtual void slow(NodeId node, const std::string& what) = 0;
  /// The end of the job goes on without this node, which was lost in the meantime or hangs.
  virtual void given_up(NodeId /*node*/) {}
  virtual void ended(const Outcome& outcome) = 0;
};

/// The head of a job: it gathers members, gives ranks, publishes the plan, starts the job, compares
/// digests, decides who is lost, has the last complete step saved, and dismisses everybody. It is a
/// state machine; all calls are made in one thread.
class Coordinator final : public Machine {
 public:
  enum class State : uint8_t {
    kGathering,  ///< members join
    kPreparing,  ///< all have joined, and open job and data
    kFetching,   ///< a worker that keeps a later step than the coordinator sends it
    kMeasuring,  ///< the workers measure the link between them
    kConnecting,
    kRunning,
    kConcluding,  ///< all workers are done; the servers report
    kSuspecting,  ///< a member is lost; others may report what they awaited from it
    kFailing,
    kSaving,
    kEnded,
  };

  struct Options {
    uint16_t workers = 1, servers = 0;
    uint32_t view = 1;
    std::vector<Fact> facts;  ///< a member's facts must equal these
    Time timeout = std::chrono::seconds(10);
    Time stall_timeout = std::chrono::seconds(600);
    Time gather_timeout{0};  ///< 0: waits for members without a limit
    /// Whether another node may replace a member that is lost before the job begins.
    bool replaces_members = true;
  };

  /// `transport` and `host` must outlive it.
  Coordinator(const Options& options, Transport& transport, CoordinatorHost& host);

  void begin();
  /// Ends the job after a step that all workers can reach, as on a signal. Before the first step
  /// the job fails instead.
  void halt();
  /// The host has the step that fetch_kept_step() asked for.
  void fetched();
  /// Sends a note to all workers, or to one.
  void note(const Note& note);
  void note(uint16_t worker, const Note& note);
  /// Sends a note to all members, servers included.
  void note_members(const Note& note);
  void send(uint16_t worker, const FrameHeader& header, Payload payload);
  /// Reports an error of the coordinator's own, by which the job fails.
  void report_error(const std::string& why);
  /// Reports the end of a node, seen by other means than its connection. If the node has not been a
  /// member yet, the job fails; the end of a member shows in its connection.
  void report_absent(NodeId node, const std::string& why);

  State state() const { return state_; }
  /// Who has not joined yet: "2 workers and 1 server"; "" when all are there.
  std::string missing() const;

  void opened(ConnectionId connection, const PeerIdentity& peer) override;
  std::span<std::byte> place(ConnectionId from, const FrameHeader& header) override;
  void received(ConnectionId from, const FrameHeader& header,
                std::span<const std::byte> body) override;
  void heard(ConnectionId from) override { liveness_.heard(from, transport_.now()); }
  void closed(ConnectionId connection, const std::string& why) override;
  void wake() override;

 private:
  struct MemberState {
    NodeId node;
    ConnectionId connection = 0;
    std::string address;
    bool prepared = false, met = false, ready = false, finished = false;
    std::vector<Fact> facts;
    double link_mbps = 0;  ///< the rate that it has measured
    std::vector<int64_t> digest;
    int64_t step = 0;                ///< steps done, as last reported
    Progress doing;                  ///< what it computes, as last reported
    Time sign_at{0};                 ///< when it last reported progress
    std::optional<int64_t> stopped;  ///< after a loss, a worker's last complete step
    bool cannot_save = false;        ///< whether it cannot send that step
  };

  /// An open connection to a node that is no member, or not yet.
  struct Stranger {
    Role role = Role::kWorker;  ///< as the handshake has proved it
    std::string address;
    Time since{0};
  };

  void send_words(ConnectionId connection, const Payload& words);
  template <class Message>
  void tell(ConnectionId connection, const Message& message) {
    send_words(connection, payload_of(encode_message(message)));
  }
  template <class Message>
  void tell_all(const Message& message) {
    const Payload words = payload_of(encode_message(message));
    for (const auto& [node, member] : members_) send_words(member.connection, words);
  }
  void control(MemberState& member, const ControlMessage& message);
  void let_in(ConnectionId connection, const Join& join);
  void refuse(ConnectionId connection, const std::string& address, const std::string& why);
  std::optional<uint16_t> free_rank(Role role, int64_t wanted) const;
  std::string difference(const std::vector<Fact>& expected, const std::vector<Fact>& got) const;
  bool all(Role role, bool MemberState::*flag) const;
  void count_steps(MemberState& member, int64_t step);
  void sign(MemberState& member) { member.sign_at = transport_.now(); }
  void publish_when_prepared();
  std::vector<RosterEntry> roster() const;
  std::vector<std::string> worker_hosts() const;
  void measure_link();
  void probe_when_met();
  void publish_when_measured();
  void publish();
  bool same_facts();
  void start_when_ready();
  void compare(MemberState& member, const Digest& digest);
  void refuse_too_many(const MemberState& member, const Digest& digest) const;
  bool replicas_are_equal(int64_t step, const Digests& digests);
  void settle_halt(MemberState& member, int64_t step);
  void finish_when_all_have();
  /// `patience` is the grace period in which others may still report what they awaited.
  void member_lost(MemberState& member, const std::string& why, Time patience);
  void suspect(const Loss& loss, Time patience);
  void hear(const Loss& accusation);
  void accuse(const Loss& loss);
  void save_when_all_stopped();
  void dismiss(const Outcome& outcome);
  int64_t step_under_way() const;

  // What a state waits for, and for how long.
  void enter(State state);
  Time patience() const;
  bool is_awaited(const MemberState& member) const;
  const MemberState* slowest() const;
  Time quiet_since(const MemberState* member) const;
  void watch();
  void expire(const MemberState* member);
  void give_up_gathering();
  void give_up(NodeId node, const std::string& why);
  void lose_survivor(NodeId node);
  std::string what_it_did(const MemberState& member) const;
  Time median_step() const;

  void watch_strangers();
  MemberState* member_of(ConnectionId connection);
  std::optional<size_t> count_missing(Role role) const;
  Loss loss_of(const MemberState& member, Loss::Kind kind, const std::string& why) const;

  const Options options_;
  Transport& transport_;
  CoordinatorHost& host_;
  Liveness liveness_;
  State state_ = State::kGathering;
  Time entered_at_{0};  ///< when state_ was entered
  std::map<ConnectionId, Stranger> strangers_;
  std::map<NodeId, MemberState> members_;
  std::map<int64_t, Digests> digests_;  ///< by step, those after the last agreed one
  int64_t agreed_step_ = -1;
  std::map<uint16_t, int64_t> halt_offers_;
  bool halting_ = false;
  Loss loss_;
  Time suspicion_{0};               ///< the grace period for reports of others
  std::optional<uint16_t> keeper_;  ///< the worker that was asked for the step it keeps
  std::optional<uint16_t> saving_;  ///< the worker that was asked for its checkpoint
  std::vector<Time> step_times_;    ///< of the latest steps, to judge what is slow
  Time last_step_at_{0};
  int64_t last_step_ = 0;
  Time warned_at_{0};
};

}  // namespace poseidon::comm
