#pragma once

#include <chrono>
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
  /// All members of the present view have begun with their steps.
  void started(Clock::time_point when);

  /// For summary.json: "views", each {"first_step", "workers", "servers"}, and of each but the
  /// first
  /// {"lost", "replayed_steps", "lost_s"} beside; "losses", each {"who", "address", "view", "step",
  /// "at_s", "why"}; and "replayed_steps" and "lost_s" of all views together.
  void write_to(Json& summary) const;
  bool is_first() const { return views_.size() <= 1; }

 private:
  const Clock::time_point begun_ = Clock::now();
  Json views_ = Json::array(), losses_ = Json::array();
  std::vector<std::string> lost_;                ///< since the last view began
  std::optional<Clock::time_point> lost_since_;  ///< the first of them
};

}  // namespace poseidon::trainer
