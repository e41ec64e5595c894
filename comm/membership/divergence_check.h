#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "comm/membership/coordinated_job.h"
#include "comm/membership/divergence.h"
#include "comm/membership/failure_detector.h"

namespace poseidon::comm {

/// The replica divergence check: compares the workers' digests. If replicas differ, the job
/// continues from a checkpoint without the workers that contradict the majority, or it fails.
class DivergenceCheck {
 public:
  /// Both must outlive this object.
  DivergenceCheck(CoordinatedJob& job, FailureDetector& failure_detector)
      : job_(job), failure_detector_(failure_detector) {}

  /// Discards the digests of the old view.
  void begin_next_view(int64_t first_step) {
    incomplete_digests_.clear();
    agreed_step_ = std::min(agreed_step_, first_step);
  }
  /// Whether all workers have the same values after `first_step` steps. If not, declares the
  /// diverged workers as failed. All workers must be ready.
  bool have_equal_initial_values(int64_t first_step);
  /// Accepts a worker's digest. When the digests of all workers have arrived and differ, declares
  /// the diverged workers as failed. If they are equal and cover all tensors, informs the host.
  /// Throws ConfigError if the digest has too many tensors, or too many digests are incomplete.
  void take(const MemberRecord& member, const Digest& digest);

 private:
  void refuse_too_many(const MemberRecord& member, const Digest& digest) const;
  bool are_equal(int64_t step, int64_t turn, const Digests& digests);
  std::string tensor_name(int64_t turn, size_t index) const;
  void declare_failed(const Divergence& divergence, int64_t step);

  CoordinatedJob& job_;
  FailureDetector& failure_detector_;
  /// Digests that not all workers have sent yet, by step and tensor group (Digest::turn).
  std::map<std::pair<int64_t, int64_t>, Digests> incomplete_digests_;
  int64_t agreed_step_ = -1;  ///< the last step after which all tensors were equal
};

}  // namespace poseidon::comm
