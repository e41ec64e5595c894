#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// Reconfiguration: a job continues without a failed member, or with joiners. All members stop
/// computing and disconnect from their peers. Then the next view begins, with the joiners as
/// members. In this view the old members revert to the last step that all of them have completed.
/// Without sums in flight, they still have the values of this step. The reason: the update of a
/// step begins only after all members have contributed to the step. Each member contributes only
/// after it has completed the step before. With sums in flight, and after a replica divergence, all
/// members return to the last checkpoint.
class Reconfiguration {
 public:
  /// Publishes the plan of a view in which `survivors` and `joined` continue after `step` steps.
  using Publish = std::function<void(const Survivors& survivors, const std::vector<Joiner>& joined,
                                     int64_t step)>;

  /// `job` must outlive this object.
  Reconfiguration(CoordinatedJob& job, Publish publish) : job_(job), publish_(std::move(publish)) {}

  /// Whether the job can be reconfigured in its current state.
  bool is_possible() const;
  /// Whether the job can continue after these failures.
  bool can_continue_after(const std::vector<NodeFailure>& failures) const;
  /// Whether the remaining members can continue without these nodes.
  bool can_continue_without(const std::vector<NodeId>& nodes) const;
  /// Returns text to append to the failure's reason, if divergences have returned the job to the
  /// same checkpoint too often; else "".
  std::string why_it_ends(const NodeFailure& failure) const;
  /// Starts to reconfigure the job, or adds further failures to a reconfiguration in progress. The
  /// members receive the first failure only.
  void begin(const std::vector<NodeFailure>& failures);
  /// Starts the reconfiguration in which joiners become members. All workers wait after the same
  /// step. `joined` names a joiner for the members and the observer.
  void admit_joiners(const NodeFailure& joined);
  /// Records that a survivor has left the view after `left.step` complete steps.
  void left_view(MemberRecord& member, const LeftView& left);
  /// Continues after the checkpoint of `step` has been read and is intact. 0: all members begin
  /// with their initial values.
  void restored(int64_t step);
  /// Removes a member. The last step that it has reported still limits the step of the next view. A
  /// failed joiner also counts in CoordinatedJob::join_backoff.
  void forget(const MemberRecord& failed_member, const std::string& why);

 private:
  void evict(const NodeFailure& failure);
  void block_host(const std::string& address);
  void leave_view(const NodeFailure& why);
  void continue_when_all_left();
  int64_t step_for_all() const;
  bool has_values(const Survivors& left) const;
  bool lacks_values(NodeId node) const;
  bool others_are_free_of(const NodeFailure& failure) const;
  bool invalidates_others(const NodeFailure& failure) const;
  bool loses_values(const NodeFailure& failure) const;
  bool can_revert() const;
  void restore();

  CoordinatedJob& job_;
  const Publish publish_;
  /// The smallest step that failed workers have reported since the last view began.
  int64_t reported_ = std::numeric_limits<int64_t>::max();
  bool reading_ = false;                  ///< whether the checkpoint is being read
  std::optional<int64_t> restored_step_;  ///< the step of the checkpoint, once it has been read
  bool diverged_ = false;    ///< whether a divergence caused the return to a checkpoint
  int64_t returned_to_ = 0;  ///< the step to which the last divergence returned the job
  int returns_ = 0;          ///< divergences in a row that returned the job to no later step
};

}  // namespace poseidon::comm
