#pragma once

#include <string>

#include "comm/wire/messages.h"

namespace poseidon::comm {

/// A member's process as the protocol sees it: the trainer's worker or server, or a simulated one.
/// Its tensors are another's business (PayloadReceiver). Called by Member, in its thread.
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

  /// A message of the trainer's own, from the coordinator.
  virtual void noted(const Note& note) = 0;
  /// For a worker: returns a number of steps beyond which the host does not go until halt() gives
  /// the final one, or pause() the last of the view.
  virtual int64_t offer_halt() { return 0; }
  virtual void halt(int64_t /*step*/) {}
  /// For a worker: others are to join. It waits behind this step, when all updates of it are made
  /// and it has called CoordinatorLink::paused; regroup() follows.
  virtual void pause(int64_t /*step*/) {}
  /// For a server: all workers are done. The host sends its last reports and calls
  /// Member::finished.
  virtual void concluded() {}
  /// The step under way, counted from 1.
  virtual int64_t step_under_way() = 0;

  /// A member is lost, or others join, and the job goes on in another view. The host ceases to
  /// compute, keeps the steps that it can go back to, and calls CoordinatorLink::left_view;
  /// planned() follows again, by whose plan it goes back and on, or failed(). What its peers had
  /// lent or were to fill is its own then: they have left the view too. A host that has no such way
  /// takes it as the job's failure.
  virtual void regroup(const Loss& loss) { failed(loss, false); }
  /// The job has failed, and no further step will become complete. The host sends its last reports,
  /// and calls CoordinatorLink::stopped when it has ceased to compute. `alone`: the coordinator is
  /// gone, so nobody will ask for a checkpoint.
  virtual void failed(const Loss& loss, bool alone) = 0;
  /// For a worker: sends the checkpoint of the last complete step, then calls
  /// CoordinatorLink::saved, or else cannot_save.
  virtual void save(int64_t /*step*/) {}
  /// The job is over; all connections are closed.
  virtual void dismissed() = 0;
};

}  // namespace poseidon::comm
