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

/// The plan that the coordinator publishes for a view, with the first step of the view and the last
/// step of the run.
struct PublishedPlan {
  Json plan = Json::object();
  Json choices = Json::object();
  int64_t steps = 0;       ///< of the whole job
  int64_t first_step = 0;  ///< number of steps done before this view
  /// Whether the workers first repeat the checkpoint and the test that are due after `first_step`
  /// steps. An earlier view may have ended before these were complete.
  bool again = false;
  int64_t last_step = 0;  ///< last step of this run
  int64_t in_flight = 0;  ///< number of steps before this view with sums in flight
  bool tested = false;    ///< metrics.jsonl has the test after first_step
  bool trace = false;     ///< all members record traces
  bool restored = false;  ///< a later view returns to a checkpoint or to the initial values
  /// Number of workers that receive the values of worker 0 in this view; they have the last ranks.
  /// A joiner receives the values again if its first view ended before the first step.
  int64_t receiving = 0;
  void describe(Fields& fields);
  bool receives_values(uint16_t worker) const;
};

/// The plan of a run that continues from `resumed`; null: the run starts from the beginning. The
/// last step is not set yet: set_end() sets it when the training set is known. Throws ConfigError
/// if the checkpoint's batches differ from the job's.
PublishedPlan begun_plan(const Job& job, const comm::Plan& plan, const Checkpoint* resumed,
                         const RunOptions& options);
/// Adds the device of each worker to the plan. Checkpoints contain the plan, and so the devices.
void set_devices(PublishedPlan& published, const DeviceNotes& devices);
/// Sets the number of steps of the job, and the last step of the run, for a training set with
/// `samples` samples.
void set_end(PublishedPlan& published, const Job& job, int64_t samples, const RunOptions& options);

Json write_published_plan(PublishedPlan published);
/// Throws ConfigError if the content is invalid, or if its numbers of steps contradict each other.
PublishedPlan read_published_plan(const Json& json);
/// Warns if a logical shard is now computed differently than before the checkpoint: by another kind
/// of device or other arithmetic.
void warn_of_other_devices(const RunState& before, const PublishedPlan& now, const Job& job,
                           Log& log);
/// Describes the first logical shard that the plans of two successive views compute differently: by
/// another kind of device or other arithmetic. "" if there is none.
std::string moved_shard(const Json& plan_before, const Json& plan_now, const Job& job);

/// Parses and checks the plan. Throws ConfigError if the plan is for another job, or has no node
/// with the rank of `self`.
comm::Plan read_sync_plan(const PublishedPlan& published, const Job& job, comm::NodeId self);

/// Options of a worker's net with `versions` versions of everything that an update changes. The
/// published choices apply only to the job's kind of device. On another kind of device, the layers
/// select their choices by a fixed rule. Throws ConfigError.
net::Net::Options net_options(const Job& job, const PublishedPlan& published,
                              const comm::Plan& plan, int versions);

/// The learning rates of a job with `steps` steps and a training set with `samples` samples. Throws
/// ConfigError.
Schedule schedule_of(const Job& job, int64_t steps, int64_t samples);

/// The state that a checkpoint stores in addition to its tensors, without RunState::in_flight.
RunState run_state(const Job& job, const PublishedPlan& published, const Schedule& schedule,
                   int64_t step, const net::Choices& choices, const std::string& dataset);

}  // namespace poseidon::trainer
