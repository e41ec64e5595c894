#include "trainer/member/worker_view.h"

#include "trainer/plan/sync_plan.h"

namespace poseidon::trainer {

WorkerView::WorkerView(const PreparedJob& job, const PublishedPlan& published_,
                       WorkerSession& session, DeviceExchange::ActivityCallbacks activity)
    : published(published_),
      plan(read_sync_plan(published, job.job, {comm::Role::kWorker, job.rank})),
      limit(published.first_step, published.last_step),
      exchange(
          plan, job.rank, job.job.device().indices.size(),
          {.first_step = static_cast<uint64_t>(published.first_step),
           .seed = static_cast<uint64_t>(job.job.config.train.seed)},
          [&session](std::function<void()> task) { session.transport().post(std::move(task)); }) {
  exchange.watch(std::move(activity));
}

}  // namespace poseidon::trainer
