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

/// Records the views of a run in order: their members, the reason why each ended, and the cost.
/// Used by the main thread.
class ViewRecords {
 public:
  using Clock = std::chrono::steady_clock;

  /// A view with this plan continues after `first_step` steps; `made` is the number of steps that
  /// were made before.
  void add(const comm::Plan& plan, int64_t first_step, int64_t made);
  /// A member of the present view has failed, for this reason.
  void record_failure(const comm::NodeFailure& node_failure, const std::string& why,
                      Clock::time_point when);
  /// The present view ends because nodes join.
  void admit(Clock::time_point when);
  /// A node joins the next view as `who`.
  void join(comm::NodeId who, const std::string& address);
  /// All members of the present view have begun their steps.
  void started(Clock::time_point when, const std::vector<comm::RosterEntry>& members = {});

  /// Adds to summary.json: "views", each {"first_step", "workers", "servers"}. Each view after the
  /// first also has {"lost", "joined", "replayed_steps", "lost_s"}. "losses", each {"who",
  /// "address", "view", "step", "at_s", "why"}; "view" is the view that the failure ended. "joins",
  /// each {"who", "address", "view", "step", "at_s"}; "view" is the first view of the node.
  /// "replayed_steps" and "lost_s", the sums over all views.
  void write_to(Json& summary) const;
  /// Returns the content of write_to() as a separate object.
  Json events() const {
    Json all = Json::object();
    write_to(all);
    return all;
  }
  /// Adds to summary.json of a run with `steps` steps: "computed", an entry {"rank", "address",
  /// "first_step", "last_step"} for each worker that computed, with its last rank. Also "workers",
  /// the number of these entries.
  void write_workers(Json& summary, int64_t steps) const;
  bool is_first() const { return views_.size() <= 1; }
  /// Number of the last view, as the membership protocol counts them.
  uint32_t number() const { return std::max<uint32_t>(1, static_cast<uint32_t>(views_.size())); }

 private:
  /// The steps that one worker computed.
  struct WorkerSpan {
    int64_t rank = 0;
    std::string address;
    int64_t first_step = 0;            ///< counted from 1
    std::optional<int64_t> last_step;  ///< empty while it takes part
  };
  void record_workers(const std::vector<comm::RosterEntry>& members);

  const Clock::time_point begun_ = Clock::now();
  std::map<int64_t, WorkerSpan> workers_;  ///< by the rank with which it was first admitted
  Json views_ = Json::array(), losses_ = Json::array(), joins_ = Json::array();
  std::vector<std::string> lost_;                 ///< failures since the last view began
  std::vector<Json> joining_;                     ///< entries of `joins_` for the next view
  std::optional<Clock::time_point> ended_since_;  ///< time at which the previous view ended
};

}  // namespace poseidon::trainer
