#include "trainer/coordinator/view_records.h"

#include <utility>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

double seconds(ViewRecords::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void ViewRecords::add(const comm::Plan& plan, int64_t first_step, int64_t made) {
  Json view{
      {"first_step", first_step + 1}, {"workers", plan.workers()}, {"servers", plan.servers()}};
  if (!views_.empty()) {
    view["lost"] = std::exchange(lost_, {});
    view["joined"] = Json::array();
    view["replayed_steps"] = made - first_step;
  }
  for (Json& join : std::exchange(joining_, {})) {
    view["joined"].push_back(
        text(join["who"].get<std::string>(), " (", join["address"].get<std::string>(), ")"));
    join["view"] = views_.size() + 1;
    join["step"] = first_step + 1;
    joins_.push_back(std::move(join));
  }
  views_.push_back(std::move(view));
}

void ViewRecords::lose(const comm::Loss& loss, const std::string& why, Clock::time_point when) {
  let_in(when);
  lost_.push_back(why);
  losses_.push_back({{"who", comm::name_of(loss.who)},
                     {"address", loss.address},
                     {"view", views_.size()},
                     {"step", loss.step},
                     {"at_s", seconds(when - begun_)},
                     {"why", why}});
}

void ViewRecords::let_in(Clock::time_point when) {
  if (!ended_since_) ended_since_ = when;
}

void ViewRecords::join(comm::NodeId who, const std::string& address) {
  joining_.push_back({{"who", comm::name_of(who)},
                      {"address", address},
                      {"at_s", ended_since_ ? seconds(*ended_since_ - begun_) : 0.0}});
}

/// The view may have been given up meanwhile, by another loss.
void ViewRecords::started(Clock::time_point when) {
  if (!ended_since_ || !lost_.empty()) return;
  views_.back()["lost_s"] = seconds(when - *ended_since_);
  ended_since_.reset();
}

void ViewRecords::write_to(Json& summary) const {
  int64_t replayed_steps = 0;
  double lost_s = 0;
  for (const Json& view : views_) {
    replayed_steps += view.value("replayed_steps", int64_t{0});
    lost_s += view.value("lost_s", 0.0);
  }
  summary["views"] = views_;
  summary["losses"] = losses_;
  summary["joins"] = joins_;
  summary["replayed_steps"] = replayed_steps;
  summary["lost_s"] = lost_s;
}

}  // namespace poseidon::trainer
