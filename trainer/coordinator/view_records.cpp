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

void ViewRecords::record_failure(const comm::NodeFailure& node_failure, const std::string& why,
                                 Clock::time_point when) {
  admit(when);
  lost_.push_back(why);
  losses_.push_back({{"who", comm::name_of(node_failure.who)},
                     {"address", node_failure.address},
                     {"view", views_.size()},
                     {"step", node_failure.step},
                     {"at_s", seconds(when - begun_)},
                     {"why", why}});
}

void ViewRecords::admit(Clock::time_point when) {
  if (!ended_since_) ended_since_ = when;
}

void ViewRecords::join(comm::NodeId who, const std::string& address) {
  joining_.push_back({{"who", comm::name_of(who)},
                      {"address", address},
                      {"at_s", ended_since_ ? seconds(*ended_since_ - begun_) : 0.0}});
}

/// If another member failed before this view started, the next view that starts records "lost_s",
/// from the first failure on.
void ViewRecords::started(Clock::time_point when, const std::vector<comm::RosterEntry>& members) {
  record_workers(members);
  if (!ended_since_ || !lost_.empty()) return;
  views_.back()["lost_s"] = seconds(when - *ended_since_);
  ended_since_.reset();
}

/// Updates the steps that each worker computed, for a view with these members. A worker that is not
/// in this view has computed until the previous view ended.
void ViewRecords::record_workers(const std::vector<comm::RosterEntry>& members) {
  const auto first_step = views_.back().at("first_step").get<int64_t>();
  for (auto& [member, worker] : workers_)
    if (!worker.last_step) worker.last_step = first_step - 1;
  for (const comm::RosterEntry& entry : members) {
    if (entry.role != comm::Role::kWorker) continue;
    const auto [at, is_new] = workers_.try_emplace(entry.member < 0 ? entry.rank : entry.member);
    WorkerSpan& worker = at->second;
    worker.rank = entry.rank;
    worker.address = entry.address;
    worker.last_step.reset();
    if (is_new) worker.first_step = first_step;
  }
}

void ViewRecords::write_workers(Json& summary, int64_t steps) const {
  summary["computed"] = Json::array();
  for (const auto& [member, worker] : workers_)
    summary["computed"].push_back({{"rank", worker.rank},
                                   {"address", worker.address},
                                   {"first_step", worker.first_step},
                                   {"last_step", worker.last_step.value_or(steps)}});
  if (!workers_.empty()) summary["workers"] = workers_.size();
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
