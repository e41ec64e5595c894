#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/wire/messages.h"
#include "core/json.h"

namespace poseidon::trainer {

/// Records the views of a run in order: their members, why each view ended, and the time and steps
/// that this cost. Used by the main thread.
class ViewRecords {
 public:
  using Clock = std::chrono::steady_clock;

  /// Adds a view with this plan, which begins after `first_step` steps. `made`: number of steps
  /// that earlier views completed. The view repeats those after `first_step`.
  void add(const comm::Plan& plan, int64_t first_step, int64_t made);
  /// Records that a member of the current view has failed or left. `why`: complete message about
  /// the event.
  void record_failure(const comm::NodeFailure& node_failure, const std::string& why,
                      Clock::time_point when);
  /// Records that the current view ends at `when`, because nodes join.
  void admit(Clock::time_point when);
  /// Records that a node joins the next view as `who`.
  void join(comm::NodeId who, const std::string& address);
  /// All members of the current view, `members`, are ready, and its first step has started.
  /// Records the time since the end of the previous view.
  void started(Clock::time_point when, const std::vector<comm::RosterEntry>& members = {});

  /// Adds these keys to summary.json:
  /// - "views": a list of {"first_step", "workers", "servers"}. Each view after the first also has
  ///   "lost" (messages about members that failed or left), "joined" ("NAME (ADDRESS)" of each
  ///   joiner) and "replayed_steps". If it has started and no member failed before its start, it
  ///   has "lost_s": the seconds from the end of the last such view to the start of this view.
  /// - "losses": a list of {"who", "address", "view", "step", "at_s", "why"}. "view" is the view
  ///   that the failure ended.
  /// - "joins": a list of {"who", "address", "view", "step", "at_s"}. "view" is the first view of
  ///   the node, "step" the first step of this view.
  /// - "replayed_steps" and "lost_s": sums over all views
  ///
  /// "at_s" counts from the creation of this object, in seconds. For a join it is the time at which
  /// the view before ended.
  void write_to(Json& summary) const;
  /// Returns the keys of write_to() as a separate object.
  Json events() const {
    Json all = Json::object();
    write_to(all);
    return all;
  }
  /// Adds these keys to summary.json of a run with `steps` steps:
  /// - "computed": an entry {"rank", "address", "first_step", "last_step"} for each worker that
  ///   computed. "rank" is its last rank.
  /// - "workers": number of these entries
  void write_workers(Json& summary, int64_t steps) const;
  bool is_first() const { return views_.size() <= 1; }
  /// Number of the current view; the first view is 1, also before add().
  uint32_t number() const { return std::max<uint32_t>(1, static_cast<uint32_t>(views_.size())); }

 private:
  /// The steps that one worker computed.
  struct WorkerSpan {
    int64_t rank = 0;
    std::string address;
    int64_t first_step = 0;            ///< counted from 1
    std::optional<int64_t> last_step;  ///< empty while the worker is a member
  };
  void record_workers(const std::vector<comm::RosterEntry>& members);

  const Clock::time_point begun_ = Clock::now();
  std::map<int64_t, WorkerSpan> workers_;  ///< by initial rank (RosterEntry::member)
  Json views_ = Json::array(), losses_ = Json::array(), joins_ = Json::array();
  std::vector<std::string> lost_;  ///< messages about failures in the current view
  std::vector<Json> joining_;      ///< entries for `joins_` of nodes that join the next view
  std::optional<Clock::time_point> ended_since_;  ///< end of the last started view; empty: it runs
};

}  // namespace poseidon::trainer
