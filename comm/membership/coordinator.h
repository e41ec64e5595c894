#pragma once

#include <string>

#include "comm/membership/admission.h"
#include "comm/membership/coordinated_job.h"
#include "comm/membership/deadlines.h"
#include "comm/membership/divergence_check.h"
#include "comm/membership/failure_detector.h"
#include "comm/membership/halt_vote.h"
#include "comm/membership/job_shutdown.h"
#include "comm/membership/joiners.h"
#include "comm/membership/preparation.h"
#include "comm/membership/reconfiguration.h"
#include "comm/wire/messages.h"
#include "comm/wire/transport.h"

namespace poseidon::comm {

/// The coordinator of a job. It gathers members, assigns ranks, publishes the plan, starts the job
/// and compares digests. It decides which nodes have failed. After a failure it reconfigures the
/// job, or requests the checkpoint of the last complete step. It admits joiners, and dismisses all
/// members at the end. Components such as Admission do the work. The coordinator passes each
/// message to the component that handles it. It is a state machine; all calls are made in one
/// thread.
class Coordinator final : public Machine {
 public:
  using State = CoordinatorState;
  using Options = CoordinatorOptions;

  /// `transport` and all parts of `host` must outlive this object.
  Coordinator(const Options& options, Transport& transport, const CoordinatorHost& host);

  void begin() override;
  /// Ends the job early, for example after a signal. The job ends after a step that all workers can
  /// reach. Before the first step, the job fails instead.
  void halt();
  /// Reports that the host has received the checkpoint that JobPlanner::fetch_memory_checkpoint()
  /// requested.
  void fetched() { preparation_.fetched(); }
  /// Reports that the host has read the checkpoint of `step`, as JobPlanner::restore() requested.
  /// Step 0: no checkpoint is intact.
  void restored(int64_t step) { reconfiguration_.restored(step); }
  /// Sends a note to a worker. Does nothing if there is no such worker.
  void note(uint16_t worker, const Note& note);
  /// Sends a note to all members, servers included.
  void note_members(const Note& note) { job_.members.broadcast(note); }
  void send(uint16_t worker, const FrameHeader& header, Payload payload);
  /// Reports an error of the coordinator itself. The job fails.
  void report_error(const std::string& why);
  /// Reports that the process of a node has ended. If the job waits for members and the node is not
  /// a member yet, the job fails. Ignores members, because a closed connection reports the end of a
  /// member.
  void report_absent(NodeId node, const std::string& why);
  /// Reports that a member of `view` has sent an unreadable message. Only this member counts as
  /// failed. Ignores the report if the view has ended.
  void report_unreadable(NodeId node, uint32_t view, const std::string& why);

  State state() const { return job_.state(); }
  /// The number of the current view.
  uint32_t view() const { return job_.view(); }
  const MemberTable& members() const { return job_.members; }
  /// The numbers of members that have not joined yet: "2 workers and 1 server"; "" if all have
  /// joined.
  std::string missing() const { return admission_.missing(); }

  /// The limit is lower for a node that is neither member nor joiner, because any node with the
  /// secret can connect.
  uint64_t max_control_bytes(ConnectionId from) const override;
  void opened(ConnectionId connection, const PeerIdentity& peer) override;
  std::span<std::byte> destination(ConnectionId from, const FrameHeader& header) override;
  void received(ConnectionId from, const FrameHeader& header,
                std::span<const std::byte> body) override;
  void heard(ConnectionId from) override { job_.liveness.heard(from, job_.now()); }
  void closed(ConnectionId connection, const std::string& why) override;
  void wake() override;

 private:
  void control(ConnectionId from, std::span<const std::byte> body);
  void control(MemberRecord& member, const ControlMessage& message);
  void handle_silence(ConnectionId connection);

  CoordinatedJob job_;
  Admission admission_;
  JobShutdown job_shutdown_;
  Reconfiguration reconfiguration_;
  FailureDetector failure_detector_;
  DivergenceCheck divergence_check_;
  HaltVote halt_;
  Joiners joiners_;
  Preparation preparation_;
  Deadlines deadlines_;
};

}  // namespace poseidon::comm
