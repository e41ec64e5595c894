#pragma once

#include <string>

#include "comm/plan/plan.h"
#include "comm/wire/node.h"
#include "core/fields.h"
#include "net/net.h"
#include "trainer/job/job.h"
#include "trainer/job/run_options.h"
#include "trainer/job/schedule.h"
#include "trainer/messages/device_note.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::trainer {

/// The plan and how far the run goes.
struct PublishedPlan {
  Json plan = Json::object();
  Json choices = Json::object();
  int64_t steps = 0;       ///< of the whole job
  int64_t first_step = 0;  ///< steps done already
  bool again = false;      ///< in another view: what is due after them may have been lost with it
  int64_t last_step = 0;   ///< where this run ends
  int64_t in_flight = 0;   ///< of the steps done, those whose sums the first values carry
  bool tested = false;     ///< metrics.jsonl has a test after first_step
  bool trace = false;      ///< all members record what they do
  bool restored = false;   ///< of a later view: its first values are those of a checkpoint
  /// Workers, those of the last ranks, that receive the values of worker 0 in this view. A joiner
  /// receives them again if the view that it joined ended before its first step.
  int64_t receiving = 0;
  void describe(Fields& fields);
  bool receives_values(uint16_t worker) const;
};

/// The plan of a run that goes on from `resumed`, or begins anew where that is null. How far it
/// goes is said when the training set is known. Throws ConfigError where the batches of the
/// checkpoint are not those of the job.
PublishedPlan begun_plan(const Job& job, const comm::Plan& plan, const Checkpoint* resumed,
                         const RunOptions& options);
/// Says what each worker computes with, which checkpoints then say too.
void set_devices(PublishedPlan& published, const DeviceNotes& devices);
/// Says how far a run of the job goes on a training set of `samples`.
void set_end(PublishedPlan& published, const Job& job, int64_t samples, const RunOptions& options);

Json write_published_plan(PublishedPlan published);
PublishedPlan read_published_plan(const Json& json);
/// Tells where a logical shard is computed otherwise than it was until the checkpoint: by another
/// kind of device, arithmetic or number of threads.
void warn_of_other_devices(const RunState& before, const PublishedPlan& now, const Job& job,
                           Log& log);
/// The same of a run whose plan is another from here on; "" where each shard is computed as before.
std::string moved_shard(const Json& plan_before, const Json& plan_now, const Job& job);

/// The plan in it. Throws ConfigError where it is for another job, or has no place for `self`.
comm::Plan read_sync_plan(const PublishedPlan& published, const Job& job, comm::NodeId self);

/// Of a worker's net that has so many versions of what an update changes. The choices are for the
/// job's kind of device: another has its fixed rule. Throws ConfigError.
net::Net::Options net_options(const Job& job, const PublishedPlan& published,
                              const comm::Plan& plan, int versions);

/// The learning rates of a job of so many steps, on a training set of `samples`. Throws
/// ConfigError.
Schedule schedule_of(const Job& job, int64_t steps, int64_t samples);

/// What a checkpoint says beside its tensors, and beside what it carries in flight.
RunState run_state(const Job& job, const PublishedPlan& published, const Schedule& schedule,
                   int64_t step, const net::Choices& choices, const std::string& dataset);

}  // namespace poseidon::trainer
