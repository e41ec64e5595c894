#include "trainer/coordinator/view_records.h"

#include <utility>

namespace poseidon::trainer {

void ViewRecords::add(const comm::Plan& plan, int64_t first_step, int64_t made) {
  Json view{
      {"first_step", first_step + 1}, {"workers", plan.workers()}, {"servers", plan.servers()}};
  if (!views_.empty()) {
    view["lost"] = std::exchange(lost_, {});
    view["replayed_steps"] = made - first_step;
  }
  views_.push_back(std::move(view));
}

void ViewRecords::lose(const std::string& why, Clock::time_point when) {
  if (!lost_since_) lost_since_ = when;
  lost_.push_back(why);
}

/// The view may have been given up meanwhile, by another loss.
void ViewRecords::started(Clock::time_point when) {
  if (!lost_since_ || !lost_.empty()) return;
  views_.back()["lost_s"] = std::chrono::duration<double>(when - *lost_since_).count();
  lost_since_.reset();
}

}  // namespace poseidon::trainer
