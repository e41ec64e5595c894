#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/link_probe.h"
#include "comm/wire/liveness.h"
#include "comm/wire/messages.h"
#include "comm/wire/outlet.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// A member's process as the protocol sees it: the trainer's worker or server, or a simulated one.
/// Called by Member, in its thread.
class MemberHost {
 public:
  virtual ~MemberHost() = default;

  /// The node takes part. The host opens what the job needs and then calls Member::prepared.
  virtual void welcomed(uint16_t rank, const Json& job) = 0;
  /// The coordinator cannot be reached, and is tried again. Called when the reason changes.
  virtual void unreachable(const std::string&) {}
  virtual void refused(const std::string& why) = 0;
  /// The plan is known; peers are being connected. The host puts first values in place and then
  /// calls Member::ready. Frames of peers may come as soon as this returns.
  virtual void planned(const Planned& planned) = 0;
  virtual void started(uint64_t first_step) = 0;

  virtual Placement place(NodeId from, const FrameHeader& header) = 0;
  virtual void received(NodeId from, const FrameHeader& header) = 0;
  /// A body whose destination was given by place() will not come.
  virtual void forgotten(NodeId from) = 0;

  /// A message of the trainer's own, from the coordinator.
  virtual void noted(const Note& note) = 0;
  /// Returns a number of steps beyond which the host does not go until halt() gives the final one.
  virtual int64_t offer_halt() = 0;
  virtual void halt(int64_t step) = 0;
  /// For a server: all workers are done. The host sends its last reports and calls
  /// Member::finished.
  virtual void concluded() = 0;
  /// What is awaited from `node` at this moment, for messages: "the sum of ... from server 0", or
  /// "".
  virtual std::string awaiting(NodeId node) = 0;
  /// The step under way, counted from 1.
  virtual int64_t step_under_way() = 0;

  /// The job has failed, and no further step will become complete. The host sends its last reports,
  /// and calls Member::stopped when it has ceased to compute. `alone`: the coordinator is gone, so
  /// nobody will ask for a checkpoint.
  virtual void failed(const Loss& loss, bool alone) = 0;
  /// Sends the checkpoint of the last complete step, then calls Member::saved, or else cannot_save.
  virtual void save(int64_t step) = 0;
  /// The job is over; all connections are closed.
  virtual void dismissed() = 0;
};

/// A worker's or server's part in a job without the payload: it joins, connects to its peers,
/// watches them, and ends with the others whatever happens. It is a state machine; all calls are
/// made in one thread.
class Member final : public Machine, public Outlet {
 public:
  struct Options {
    Role role = Role::kWorker;
    int64_t wanted_rank = -1;
    std::string coordinator;  ///< "host:port"
    std::string address;      ///< where the other nodes reach this one
    std::vector<Fact> facts;
    Time pause{0};         ///< how long to wait before the coordinator is looked for
    Time join_timeout{0};  ///< 0: without a limit
    bool carries_payload = true;
  };

  /// `transport` and `host` must outlive it.
  Member(const Options& options, Transport& transport, MemberHost& host);

  /// Begins to look for the coordinator.
  void join();
  void prepared(const std::vector<Fact>& facts);
  /// `meets_workers`: whether the plan moves factors between workers.
  void ready(const std::vector<int64_t>& digest, bool meets_workers);
  void note(const Note& note);
  /// Sends a note behind all bulk frames sent so far.
  void note_after_bulk(const Note& note);
  void digest(const Digest& digest);
  /// Reports what the computing thread does.
  void progress(const Progress& progress);
  /// All steps are done; only the coordinator matters from here on.
  void finished(int64_t step);
  /// Reports an error of this node's own, by which the job fails.
  void report_error(const std::string& why);
  void stopped(int64_t step);
  void saved(int64_t step);
  void cannot_save(const std::string& why);
  /// Ends without a message, since nobody is left to receive one.
  void leave() { end(); }
  /// Ends this node on request: at once if there is no plan yet, else with the job, which fails by
  /// this.
  void leave(const std::string& why);
  /// Sends a bulk frame to the coordinator.
  void send_to_coordinator(const FrameHeader& header, Payload payload);

  uint16_t rank() const { return rank_; }
  uint32_t view() const { return self_.view; }

  void send(NodeId to, const FrameHeader& header, Payload payload, Priority priority) override;

  std::string refusal(const PeerIdentity& caller) const override;
  void opened(ConnectionId connection, const PeerIdentity& peer) override;
  std::span<std::byte> place(ConnectionId from, const FrameHeader& header) override;
  void received(ConnectionId from, const FrameHeader& header,
                std::span<const std::byte> body) override;
  void heard(ConnectionId from) override { liveness_.heard(from, transport_.now()); }
  void closed(ConnectionId connection, const std::string& why) override;
  void wake() override;

 private:
  enum class State : uint8_t {
    kSeeking,     ///< no coordinator yet
    kJoining,     ///< has asked to take part
    kPreparing,   ///< takes part
    kConnecting,  ///< knows the plan, and connects to its peers
    kReady,       ///< has reported that it is ready
    kRunning,
    kFinished,    ///< all steps are done
    kSuspecting,  ///< has reported a loss and waits for the coordinator's verdict
    kFailing,     ///< the job has failed
    kEnded,
  };

  template <class Message>
  void tell(const Message& message, Priority priority = kUrgent);
  void seek();
  void seek_again(const std::string& why);
  void control(const ControlMessage& message);
  void drop(ConnectionId connection);
  void become(int64_t view, const std::vector<RosterEntry>& roster);
  void measure(const Measure& order);
  void say_met_when_complete();
  void take_plan(const Planned& planned);
  void connect_to_peers();
  void connect_to(NodeId peer);
  bool expects(NodeId peer) const;
  void say_ready_when_complete();
  void coordinator_lost(const std::string& why);
  void suspect(NodeId node, const std::string& why);
  void accuse(const Loss& loss);
  void fail(const Loss& loss);
  void end();
  std::string address_of(NodeId node) const;
  static NodeId node_of(const PeerIdentity& peer);
  std::optional<NodeId> node_of(ConnectionId connection) const;
  Loss loss_of(NodeId node, const std::string& why) const;

  const Options options_;
  Transport& transport_;
  MemberHost& host_;
  Liveness liveness_;
  State state_ = State::kSeeking;
  ConnectionId coordinator_ = 0;
  bool coordinator_there_ = false;
  Time seek_until_{0}, seek_at_{0}, seek_pause_{0};
  std::string sought_in_vain_;  ///< why the coordinator could not be reached
  bool prepared_ = false;       ///< whether the host has called prepared()
  uint16_t rank_ = 0;
  PeerIdentity self_;  ///< with the job that the coordinator has proved
  std::map<NodeId, std::string> roster_;
  std::map<NodeId, ConnectionId> connection_of_;
  std::map<ConnectionId, NodeId> node_of_;     ///< of open connections to peers
  std::map<ConnectionId, NodeId> connecting_;  ///< of connections that are not open yet
  std::map<NodeId, Time> reconnect_at_;
  Time peers_until_{0};
  bool meets_workers_ = false;
  std::optional<LinkProbe> probe_;
  bool met_ = false;
  std::optional<std::vector<int64_t>> digest_;  ///< present when the host is ready
  Time verdict_until_{0};
  Loss accusation_;
};

}  // namespace poseidon::comm
