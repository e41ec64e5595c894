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

/// The views of a run, one after another: who took part, why the one before ended, and what that
/// cost. Used by the main thread.
class ViewRecords {
 public:
  using Clock = std::chrono::steady_clock;

  /// A view by this plan goes on after `first_step` steps, where `made` had been made before.
  void add(const comm::Plan& plan, int64_t first_step, int64_t made);
  /// A member of the present view is lost, for this reason.
  void lose(const comm::Loss& loss, const std::string& why, Clock::time_point when);
  /// The present view ends, since others join.
  void let_in(Clock::time_point when);
  /// A node takes part in the next view, where it is `who`.
  void join(comm::NodeId who, const std::string& address);
  /// All members of the present view have begun with their steps.
  void started(Clock::time_point when, const std::vector<comm::RosterEntry>& members = {});

  /// For summary.json: "views", each {"first_step", "workers", "servers"}, and of each but the
  /// first {"lost", "joined", "replayed_steps", "lost_s"} beside; "losses", each {"who", "address",
  /// "view", "step", "at_s", "why"}, of the view that it ended; "joins", each {"who", "address",
  /// "view", "step", "at_s"}, of the view that it began with; and "replayed_steps" and "lost_s" of
  /// all views together.
  void write_to(Json& summary) const;
  /// The same as an object of its own.
  Json events() const {
    Json all = Json::object();
    write_to(all);
    return all;
  }
  /// For summary.json, of a run that has made `steps` steps: "computed", each {"rank", "address",
  /// "first_step", "last_step"}, the workers that computed, with the rank that each had last; and
  /// "workers", how many those are.
  void write_workers(Json& summary, int64_t steps) const;
  bool is_first() const { return views_.size() <= 1; }
  /// Of the last view, as the membership counts them.
  uint32_t number() const { return std::max<uint32_t>(1, static_cast<uint32_t>(views_.size())); }

 private:
  /// The steps that one worker computed.
  struct WorkerSpan {
    int64_t rank = 0;
    std::string address;
    int64_t first_step = 0;            ///< counted from 1
    std::optional<int64_t> last_step;  ///< once it takes no part any more
  };
  void record_workers(const std::vector<comm::RosterEntry>& members);

  const Clock::time_point begun_ = Clock::now();
  std::map<int64_t, WorkerSpan> workers_;  ///< by the rank with which the coordinator admitted it
  Json views_ = Json::array(), losses_ = Json::array(), joins_ = Json::array();
  std::vector<std::string> lost_;                 ///< since the last view began
  std::vector<Json> joining_;                     ///< those of `joins_` in the next one
  std::optional<Clock::time_point> ended_since_;  ///< the view before
};

}  // namespace poseidon::trainer
