#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
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
  void started(Clock::time_point when);

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
  bool is_first() const { return views_.size() <= 1; }
  /// Of the last view, as the membership counts them.
  uint32_t number() const { return std::max<uint32_t>(1, static_cast<uint32_t>(views_.size())); }

 private:
  const Clock::time_point begun_ = Clock::now();
  Json views_ = Json::array(), losses_ = Json::array(), joins_ = Json::array();
  std::vector<std::string> lost_;                 ///< since the last view began
  std::vector<Json> joining_;                     ///< those of `joins_` in the next one
  std::optional<Clock::time_point> ended_since_;  ///< the view before
};

}  // namespace poseidon::trainer
