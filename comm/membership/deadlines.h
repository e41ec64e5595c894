#pragma once

#include <string>

#include "comm/membership/admission.h"
#include "comm/membership/coordinated_job.h"
#include "comm/membership/failure_detector.h"
#include "comm/membership/job_shutdown.h"
#include "comm/membership/preparation.h"

namespace poseidon::comm {

/// The timeouts of a coordinator: how long each state may last, the members for which it waits, and
/// the effect of a timeout. The table is in comm/membership/states.h.
class Deadlines {
 public:
  /// All arguments must outlive this object.
  Deadlines(CoordinatedJob& job, const Admission& admission, FailureDetector& failure_detector,
            JobShutdown& job_shutdown, Preparation& preparation)
      : job_(job),
        admission_(admission),
        failure_detector_(failure_detector),
        job_shutdown_(job_shutdown),
        preparation_(preparation) {}

  /// Ends a state that has lasted too long. Before that, warns about the member that makes no
  /// progress.
  void watch();

 private:
  Time limit() const;
  bool is_awaited(const MemberRecord& member) const;
  const MemberRecord* slowest() const;
  bool watch_slowest();
  Time quiet_since(const MemberRecord* member) const;
  void warn(const MemberRecord& member, Time quiet);
  std::string last_activity(const MemberRecord& member) const;
  void expire(const MemberRecord* member);
  void give_up_gathering();
  bool give_up_joiners();

  CoordinatedJob& job_;
  const Admission& admission_;
  FailureDetector& failure_detector_;
  JobShutdown& job_shutdown_;
  Preparation& preparation_;
  Time warned_at_{0};
};

}  // namespace poseidon::comm
