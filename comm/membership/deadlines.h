#pragma once

#include <string>

#include "comm/membership/admission.h"
#include "comm/membership/coordinated_job.h"
#include "comm/membership/ending.h"
#include "comm/membership/preparation.h"
#include "comm/membership/verdict.h"

namespace poseidon::comm {

/// The timeouts of a coordinator: how long each state may last, which members it waits for, and how
/// it ends. The table is in comm/membership/states.h.
class Deadlines {
 public:
  /// All must outlive it.
  Deadlines(CoordinatedJob& job, const Admission& admission, Verdict& verdict, Ending& ending,
            Preparation& preparation)
      : job_(job),
        admission_(admission),
        verdict_(verdict),
        ending_(ending),
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
  std::string what_it_did(const MemberRecord& member) const;
  void expire(const MemberRecord* member);
  void give_up_gathering();
  bool give_up_joiners();

  CoordinatedJob& job_;
  const Admission& admission_;
  Verdict& verdict_;
  Ending& ending_;
  Preparation& preparation_;
  Time warned_at_{0};
};

}  // namespace poseidon::comm
