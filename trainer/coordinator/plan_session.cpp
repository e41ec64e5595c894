#include "trainer/coordinator/plan_session.h"

#include <utility>

#include "core/error.h"
#include "trainer/state/resume.h"
#include "trainer/state/tensor_check.h"

namespace poseidon::trainer {

namespace {

/// Link rate for the time limit of state transfer if the job sets no rate. Training over slower
/// links is not practical.
constexpr double kSlowLinkMbps = 100;
/// Limit on the tensors that a joiner receives for each parameter: value, two moments, EMA.
constexpr double kTensorsOfState = 4;

}  // namespace

/// The job message of a running job contains the current plan. A joiner then builds its net before
/// the members wait for it.
Json PlanSession::job() {
  Json job = setting_.job_message;
  if (side_.plan.is_decided()) job["plan"] = write_published_plan(side_.plan.published());
  return job;
}

void PlanSession::measured_link(const comm::LinkRate& rate, bool one_host) {
  side_.plan.set_link(rate);
  setting_.inform(
      one_host
          ? text("all workers are on one host: the plan assumes the loopback rate, measured as ",
                 rate.mbps, " Mb/s; \"comm.link_mbps\" sets another rate")
          : text("the plan assumes the link rate between workers, measured as ", rate.mbps,
                 " Mb/s each way"));
}

std::optional<uint16_t> PlanSession::fetch_memory_checkpoint() {
  const CheckpointOfferNote* kept = side_.kept.choose(first_step());
  if (kept == nullptr) return std::nullopt;
  side_.reception.expect(kept->list);
  side_.coordinator->note(*side_.kept.chosen_worker(), write_note(FetchNote{}, kept->state.step));
  return side_.kept.chosen_worker();
}

/// A checkpoint that does not fit this job is not an error of the worker.
void PlanSession::take_offer(comm::NodeId worker, const comm::Note& note) {
  auto kept = read_note<CheckpointOfferNote>(note);
  if (!setting_.goes_on || kept.run != setting_.run || kept.state.step != note.step)
    throw ConfigError("an in-memory checkpoint that was not requested");
  const Job& job = setting_.job;
  try {
    check_tensors(kept.list, *job.network, job.config.optimizer,
                  std::max(job.config.comm.staleness, kept.state.in_flight));
    refuse_other_batch(kept.state, job, setting_.options.resume);
    side_.kept.add(worker.rank, std::move(kept));
  } catch (const ConfigError& error) {
    setting_.warn(text(comm::name_of(worker), " has an in-memory checkpoint of step ", note.step,
                       " of this run that does not fit this job: ", error.what()));
  }
}

void PlanSession::take_report(comm::NodeId worker, const comm::Note& note) {
  auto kept = read_note<SavedReportNote>(note);
  if (!setting_.goes_on) throw ConfigError("sent a stored report that was not requested");
  side_.kept.add_report(worker.rank, std::move(kept.report));
}

/// The coordinator receives the values from worker 0, and sends them to each joiner. All these
/// transfers use the coordinator's link.
comm::Time PlanSession::state_transfer_time() {
  double bytes = 0;
  for (const comm::LayerPlan& layer : side_.plan.plan().layers)
    for (const auto& tensor : layer.traffic.tensors)
      bytes += static_cast<double>(tensor.elements) * sizeof(float);
  const auto joiners = static_cast<double>(side_.coordinator->members().count_without_values());
  const double known = setting_.job.config.comm.link_mbps;
  const double mbps = known > 0 ? known : kSlowLinkMbps;
  const double seconds = kTensorsOfState * bytes * (1 + joiners) * 8 / (mbps * 1e6);
  return std::chrono::duration_cast<comm::Time>(std::chrono::duration<double>(seconds));
}

void PlanSession::renumbered(const comm::Survivors& there) {
  setting_.inform("the job begins without " + side_.coordinator->missing());
  side_.plan.renumber(there);
  side_.kept.renumber(there.workers);
}

/// If the plan cannot be made, the main thread throws the error, which ends the job.
std::optional<Json> PlanSession::plan(const std::vector<comm::Fact>& facts,
                                      const comm::Survivors& members) {
  RunPlan& plan = side_.plan;
  try {
    plan.decide(facts, members);
  } catch (const ConfigError&) {
    setting_.inbox.post([failure = std::current_exception()] { std::rethrow_exception(failure); });
    return std::nullopt;
  }
  setting_.inbox.post([this, all = decided(facts), kept = side_.kept.reports()] {
    setting_.records.begin(all, kept);
  });
  return write_published_plan(plan.published());
}

DecidedPlan PlanSession::decided(const std::vector<comm::Fact>& facts) const {
  const RunPlan& plan = side_.plan;
  return {.plan = plan.plan(),
          .published = plan.published(),
          .facts = facts,
          .no_factors = plan.no_factors(),
          .dealt = plan.dealt(),
          .devices = plan.devices()};
}

/// A missing or unreadable device note is an objection, not an error of the job.
std::string PlanSession::objection(const comm::Joiner& joiner) {
  try {
    return side_.plan.objection(joiner);
  } catch (const ConfigError& error) {
    return error.what();
  }
}

/// First drops incomplete checkpoints, because they are stored by the workers' old ranks.
std::optional<Json> PlanSession::plan_next_view(const comm::Survivors& left,
                                                const std::vector<comm::Joiner>& joined,
                                                int64_t step) {
  RunPlan& plan = side_.plan;
  for (int64_t worker = 0; worker < plan.plan().workers(); ++worker)
    side_.reception.forget(static_cast<uint16_t>(worker));
  const std::optional<comm::SavedStep> restored = std::exchange(side_.restored, std::nullopt);
  const size_t receiving = restored ? 0 : side_.coordinator->members().count_without_values();
  plan.go_on(left, joined, restored.value_or(comm::SavedStep{.step = step}), restored.has_value(),
             static_cast<int64_t>(receiving));
  side_.state_transfer.begin_view(side_.coordinator->view(), receiving);
  setting_.inbox.post(
      [this, left, joined,
       next = NextView{
           .plan = plan.plan(), .published = plan.published(), .devices = plan.devices()}] {
        setting_.watcher.reconfigured(left, joined);
        setting_.records.go_on(next);
      });
  return write_published_plan(plan.published());
}

/// Posts the work to the main thread, because file access would block this thread.
void PlanSession::restore() {
  setting_.inbox.post([this] { setting_.records.restore(); });
}

}  // namespace poseidon::trainer
