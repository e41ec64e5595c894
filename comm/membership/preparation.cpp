#include "comm/membership/preparation.h"

#include <algorithm>
#include <limits>

#include "comm/membership/admission.h"
#include "comm/membership/link_probe.h"
#include "comm/wire/address.h"
#include "comm/wire/texts.h"

namespace poseidon::comm {

// ---- all are prepared

void Preparation::prepared(MemberRecord& member, const std::vector<Fact>& facts) {
  member.facts = facts;
  member.prepared = true;
  publish_when_prepared();
}

void Preparation::publish_when_prepared() {
  if (job_.state() != CoordinatorState::kPreparing || !job_.members.all(&MemberRecord::prepared))
    return;
  if (!same_facts()) return;
  if (const auto checkpoint_holder = job_.host.planner.fetch_memory_checkpoint())
    return job_.ask(CoordinatorState::kFetching, *checkpoint_holder);
  if (job_.members.count(Role::kWorker) > 1 && job_.host.planner.needs_link_rate())
    measure_link();
  else
    publish();
}

/// Facts that follow from the job and each worker's data must be equal on all workers.
bool Preparation::same_facts() {
  const MemberRecord& first = *job_.members.find({Role::kWorker, 0});
  for (const auto& [node, member] : job_.members) {
    if (!member.is_worker()) continue;
    const std::string different = difference(first.facts, member.facts);
    if (different.empty()) continue;
    failure_detector_.declare_failed(
        job_.failure_of(member, NodeFailure::Kind::kError, text(different, " as on worker 0")));
    return false;
  }
  return true;
}

/// If the requested worker has failed in the meantime, the state is no longer kFetching. After
/// give_up_fetch() the planner may ask another worker.
void Preparation::fetched() {
  if (job_.state() != CoordinatorState::kFetching) return;
  job_.enter(CoordinatorState::kPreparing);
  publish_when_prepared();
}

/// The worker stays a member, because it may still be able to train. The coordinator only stops
/// waiting for its in-memory checkpoint, and asks the worker with the next best checkpoint.
void Preparation::give_up_fetch(const MemberRecord& checkpoint_holder, Time quiet) {
  job_.host.observer.slow(
      checkpoint_holder.node,
      text(name_of(checkpoint_holder.node),
           " has a later in-memory checkpoint of this run, but sent no tensor of it for ",
           seconds_text(quiet), "; the job continues without it"));
  job_.host.planner.give_up_memory_checkpoint(checkpoint_holder.node.rank);
  fetched();
}

// ---- the link

void Preparation::measure_link() {
  job_.enter(CoordinatorState::kMeasuring);
  const std::vector<uint16_t> to = probe_ring(job_.members.worker_hosts());
  for (uint16_t rank = 0; rank < to.size(); ++rank) {
    const auto from = std::find(to.begin(), to.end(), rank) - to.begin();
    job_.control.send_message(
        job_.members.find({Role::kWorker, rank})->connection,
        Measure{
            .view = job_.view(), .roster = job_.members.roster(), .to = to[rank], .from = from});
  }
}

/// Starts the measurement only when all workers are connected, so no worker sends before that.
void Preparation::met(MemberRecord& member) {
  member.met = true;
  if (job_.state() == CoordinatorState::kMeasuring &&
      job_.members.all(Role::kWorker, &MemberRecord::met))
    job_.members.broadcast(Role::kWorker, Probe{});
}

void Preparation::measured(MemberRecord& member, const LinkRate& rate) {
  member.link = rate;
  publish_when_measured();
}

void Preparation::publish_when_measured() {
  if (job_.state() != CoordinatorState::kMeasuring) return;
  LinkRate slowest{.mbps = std::numeric_limits<double>::infinity()};
  for (const auto& [node, member] : job_.members) {
    if (!member.is_worker()) continue;
    if (member.link.mbps <= 0) return;
    slowest.mbps = std::min(slowest.mbps, member.link.mbps);
    slowest.processor_ns_per_byte =
        std::max(slowest.processor_ns_per_byte, member.link.processor_ns_per_byte);
  }
  slowest.mbps = rounded_mbps(slowest.mbps);
  const std::vector<std::string> hosts = job_.members.worker_hosts();
  const bool one_host = std::ranges::count(hosts, hosts[0]) == std::ssize(hosts);
  job_.host.planner.measured_link(slowest, one_host);
  publish();
}

// ---- the plan and the initial values

void Preparation::publish() {
  job_.enter(CoordinatorState::kConnecting);
  publish(job_.host.planner.plan(job_.members.find({Role::kWorker, 0})->facts, job_.survivors()));
}

void Preparation::publish_next_view(const Survivors& survivors, const std::vector<Joiner>& joined,
                                    int64_t step) {
  divergence_check_.begin_next_view(step);
  halt_.begin_next_view();
  job_.enter(CoordinatorState::kConnecting);
  publish(job_.host.planner.plan_next_view(survivors, joined, step));
}

void Preparation::publish(std::optional<Json> plan) {
  if (!plan) return;
  job_.members.broadcast(
      Planned{.view = job_.view(), .roster = job_.members.roster(), .plan = *std::move(plan)});
}

void Preparation::ready(MemberRecord& member, const std::vector<int64_t>& digest) {
  member.digest = digest;
  member.ready = true;
  start_when_ready();
}

void Preparation::start_when_ready() {
  if (job_.state() != CoordinatorState::kConnecting || !job_.members.all(&MemberRecord::ready))
    return;
  const int64_t first_step = job_.host.planner.first_step();
  if (!divergence_check_.have_equal_initial_values(first_step)) return;
  job_.enter(CoordinatorState::kRunning);
  job_.begin_steps();
  job_.restores = false;
  job_.step_timer.begin(first_step, job_.now());
  for (auto& [node, member] : job_.members) {
    member.step = first_step;
    if (!member.has_values) job_.join_backoff.forget(host_of(member.address));
    member.has_values = true;
  }
  job_.host.observer.started();
  job_.members.broadcast(Start{first_step});
  halt_.ask();
}

}  // namespace poseidon::comm
