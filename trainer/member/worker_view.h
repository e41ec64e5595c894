#pragma once

#include "comm/plan/plan.h"
#include "trainer/member/member_job.h"
#include "trainer/member/worker_session.h"
#include "trainer/plan/published_plan.h"
#include "trainer/step/cluster_exchange.h"
#include "trainer/step/step_limit.h"

namespace poseidon::trainer {

/// The objects of a worker's training that belong to one view of the job: the plan, the step limit,
/// and the exchange. Net, optimizer and data exist for the whole job.
struct WorkerView {
  /// `session` must outlive this object. Throws ConfigError for a plan that is not for this job.
  WorkerView(const PreparedJob& job, const PublishedPlan& published, WorkerSession& session,
             DeviceExchange::ActivityCallbacks activity);

  const PublishedPlan published;
  const comm::Plan plan;
  StepLimit limit;
  ClusterExchange exchange;
};

}  // namespace poseidon::trainer
