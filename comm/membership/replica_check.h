#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/drift.h"
#include "comm/membership/verdict.h"

namespace poseidon::comm {

/// Compares the workers' digests. Where replicas differ the job goes on without those that most
/// contradict, from a checkpoint, or it fails.
class ReplicaCheck {
 public:
  /// Both must outlive it.
  ReplicaCheck(CoordinatedJob& job, Verdict& verdict) : job_(job), verdict_(verdict) {}

  /// Nobody's digests of the view before are waited for.
  void begin_next_view(int64_t first_step) {
    coming_.clear();
    agreed_step_ = std::min(agreed_step_, first_step);
  }
  /// Whether all workers are ready with the same values, before the step after `first_step`.
  bool have_equal_first_values(int64_t first_step);
  /// Takes a worker's digest; the host is informed when those of all workers agree. Throws
  /// ConfigError for more digests, or larger ones, than a job can have in flight.
  void take(const MemberRecord& member, const Digest& digest);

 private:
  void refuse_too_many(const MemberRecord& member, const Digest& digest) const;
  bool are_equal(int64_t step, int64_t turn, const Digests& digests);
  std::string tensor_name(int64_t turn, size_t index) const;
  void accuse(const Drift& drift, int64_t step);

  CoordinatedJob& job_;
  Verdict& verdict_;
  /// By step and turn, those of which not all have come.
  std::map<std::pair<int64_t, int64_t>, Digests> coming_;
  int64_t agreed_step_ = -1;  ///< the last after which all tensors were equal
};

}  // namespace poseidon::comm
