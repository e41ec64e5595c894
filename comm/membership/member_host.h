#pragma once

#include <string>

#include "comm/wire/messages.h"

namespace poseidon::comm {

/// The protocol's interface to a member's process: the trainer's worker or server, or a simulated
/// process. PayloadReceiver handles the tensors. Member calls these functions in its thread.
class MemberHost {
 public:
  virtual ~MemberHost() = default;

  /// The coordinator has admitted the node. The host opens job and data, and then calls
  /// Member::prepared.
  virtual void welcomed(uint16_t rank, const Json& job) = 0;
  /// The coordinator cannot be reached; the node tries again. Called when the reason changes.
  virtual void unreachable(const std::string&) {}
  virtual void refused(const std::string& why) = 0;
  /// The plan is known, and the member connects to its peers. The host sets the initial values and
  /// then calls Member::ready. Frames of peers may arrive as soon as this function returns.
  virtual void planned(const Planned& planned) = 0;
  virtual void started(uint64_t first_step) = 0;

  /// A message of the trainer, from the coordinator.
  virtual void noted(const Note& note) = 0;
  /// For a worker: returns the earliest step after which it can stop. The host does not continue
  /// beyond this step until halt() sets the final step, or pause() sets the last step of the view.
  virtual int64_t offer_halt() { return 0; }
  virtual void halt(int64_t /*step*/) {}
  /// For a worker: joiners wait. When all updates of this step are made, the host waits and calls
  /// CoordinatorLink::paused. Then reconfigure() follows.
  virtual void pause(int64_t /*step*/) {}
  /// For a server: all workers are done. The host sends its last reports and calls
  /// Member::finished.
  virtual void concluded() {}
  /// The current step, counted from 1.
  virtual int64_t step_under_way() = 0;

  /// A member has failed, or joiners wait, and the job continues in another view. The connections
  /// to the peers are already closed, so the host may reuse the memory of frames from the peers.
  /// The host stops computing, keeps the values to which it can revert, and calls
  /// CoordinatorLink::left_view. Then planned() or failed() follows. After planned() the host
  /// reverts and continues by the new plan. A host that cannot revert handles this as the job's
  /// failure.
  virtual void reconfigure(const NodeFailure& failure) { failed(failure, false); }
  /// The job has failed, and no further step will become complete. The host sends its last reports,
  /// and calls CoordinatorLink::stopped when it has stopped computing. `alone`: the coordinator has
  /// failed, so no node will request a checkpoint.
  virtual void failed(const NodeFailure& failure, bool alone) = 0;
  /// For a worker: sends the checkpoint of the last complete step, then calls
  /// CoordinatorLink::saved. If it cannot send the checkpoint, it calls
  /// CoordinatorLink::cannot_save.
  virtual void save(int64_t /*step*/) {}
  /// The job is over; all connections are closed.
  virtual void dismissed() = 0;
};

}  // namespace poseidon::comm
