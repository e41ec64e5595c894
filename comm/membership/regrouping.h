#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "comm/membership/coordinated_job.h"

namespace poseidon::comm {

/// How a job goes on without a member that it has lost, or with newcomers: all members cease to
/// compute and leave their peers, and when all have, they go back to the least complete step among
/// them, in the next view, and newcomers take part. All still hold that step: to begin the update
/// of a step anywhere needs what all have contributed to it, each when the step before was
/// complete. That holds without sums in flight: where there are any, and after a drift, all go back
/// to the last checkpoint.
class Regrouping {
 public:
  /// Publishes the plan of a view in which `survivors` and `joined` go on after `step` steps.
  using Publish = std::function<void(const Survivors& survivors,
                                     const std::vector<Newcomer>& joined, int64_t step)>;

  /// `job` must outlive it.
  Regrouping(CoordinatedJob& job, Publish publish) : job_(job), publish_(std::move(publish)) {}

  /// Whether the job goes on after losses at all, now.
  bool is_possible() const;
  /// Whether the job can go on after these losses.
  bool can_go_on_after(const std::vector<Loss>& losses) const;
  /// Whether those that are left without these nodes can go on.
  bool can_go_on_without(const std::vector<NodeId>& nodes) const;
  /// Why this loss ends a job that has gone back to one checkpoint too often; "" if that is not
  /// why.
  std::string why_it_ends(const Loss& loss) const;
  /// It does, or it does so already, when more are lost. The first loss is the one that members
  /// hear of.
  void begin(const std::vector<Loss>& losses);
  /// The job goes on with newcomers. All workers wait behind the same step.
  void let_in(const Loss& joined);
  /// A survivor has left the view after `step` complete steps.
  void left_view(MemberRecord& member, const LeftView& left);
  /// The checkpoint of `step` has been read and is intact; 0: all begin with their first values.
  void restored(int64_t step);
  /// A member is no longer one. What it has reported of its steps counts.
  void forget(const MemberRecord& lost, const std::string& why);

 private:
  void evict(const Loss& loss);
  void bar_host(const std::string& address);
  void leave_view(const Loss& why);
  void go_on_when_all_left();
  int64_t step_for_all() const;
  bool has_values(const Survivors& left) const;
  bool lacks_values(NodeId node) const;
  bool others_are_free_of(const Loss& loss) const;
  bool spoils_others(const Loss& loss) const;
  bool loses_values(const Loss& loss) const;
  bool may_go_back() const;
  void restore();

  CoordinatedJob& job_;
  const Publish publish_;
  /// Steps that each lost worker has reported, since the last view began.
  int64_t reported_ = std::numeric_limits<int64_t>::max();
  bool reading_ = false;                  ///< the checkpoint that all go back to
  std::optional<int64_t> restored_step_;  ///< that of the checkpoint, once it has been read
  bool spoilt_ = false;                   ///< they go back because of a drift
  int64_t returned_to_ = 0;               ///< after the last drift
  int returns_ = 0;                       ///< drifts in a row after which it was that step
};

}  // namespace poseidon::comm
