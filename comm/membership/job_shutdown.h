#pragma once

#include <string>

#include "comm/membership/admission.h"
#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// The end of a job. When all workers are done, the servers report. After a failure the survivors
/// stop computing. The surviving worker that has completed the most steps sends its checkpoint.
class JobShutdown {
 public:
  /// Both must outlive this object.
  JobShutdown(CoordinatedJob& job, Admission& admission) : job_(job), admission_(admission) {}

  /// Records that a member has completed its work after `step` steps. Ends the job when all members
  /// have done so.
  void finished(MemberRecord& member, int64_t step);
  /// Starts to end the job because of `failure`. Informs the members, which stop computing.
  void fail(const NodeFailure& failure);
  /// Records that a survivor has stopped computing after `step` complete steps. When all have
  /// stopped, requests a checkpoint.
  void stopped(MemberRecord& member, int64_t step);
  /// Ends the job, because the survivor has sent the requested checkpoint.
  void saved(const MemberRecord& member, int64_t step);
  /// Requests the checkpoint of another survivor, if there is one, because this survivor cannot
  /// send its checkpoint.
  void cannot_save(MemberRecord& member, const std::string& why);
  /// Removes a member that has failed while the job ends. The coordinator no longer waits for it.
  void node_failed(NodeId node);
  /// Disconnects a member that is too slow. The shutdown continues without it.
  void give_up(NodeId node, const std::string& why);

 private:
  void conclude_when_finished();
  void save_when_all_stopped();
  void ask_next_best();
  void dismiss(const Outcome& outcome);
  void dismiss_without_checkpoint();

  CoordinatedJob& job_;
  Admission& admission_;
  NodeFailure failure_;
};

}  // namespace poseidon::comm
