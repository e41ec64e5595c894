#pragma once

#include <string>

#include "comm/membership/admission.h"
#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// How a job comes to its end: when all workers are done, the servers report; after a loss, the
/// survivors cease to compute, and the one with the most complete steps sends its checkpoint.
class Ending {
 public:
  /// Both must outlive it.
  Ending(CoordinatedJob& job, Admission& admission) : job_(job), admission_(admission) {}

  /// A member is done.
  void finished(MemberRecord& member, int64_t step);
  /// The job fails by this loss.
  void fail(const Loss& loss);
  /// A survivor has ceased to compute after `step` complete steps.
  void stopped(MemberRecord& member, int64_t step);
  /// The survivor that was asked has sent its checkpoint.
  void saved(const MemberRecord& member, int64_t step);
  /// The survivor that was asked cannot send it.
  void cannot_save(MemberRecord& member, const std::string& why);
  /// A member that is lost meanwhile is not waited for.
  void lose(NodeId node);
  /// The end goes on without a member that is still there.
  void give_up(NodeId node, const std::string& why);

 private:
  void conclude_when_finished();
  void save_when_all_stopped();
  void ask_next_best();
  void dismiss(const Outcome& outcome);
  void dismiss_without_checkpoint();

  CoordinatedJob& job_;
  Admission& admission_;
  Loss loss_;
};

}  // namespace poseidon::comm
