#include "trainer/plan/balance_advice.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// Suggested logical shards per worker: a GPU is often at least this many times as fast as a CPU.
constexpr int64_t kWantedPerWorker = 8;
/// With fewer logical shards per worker, an assignment can hardly match the speeds of the workers.
constexpr int64_t kFewPerWorker = 4;

/// The smallest divisor of the batch that is at least `wanted`; the batch itself if there is none.
int64_t enough_shards(int64_t batch, int64_t wanted) {
  for (int64_t shards = std::min(wanted, batch); shards < batch; ++shards)
    if (batch % shards == 0) return shards;
  return batch;
}

}  // namespace

std::string balance_advice(const Job& job, const comm::Plan& plan, const DeviceNotes& devices) {
  const std::string kinds = kinds_of(devices);
  const bool alike = devices.empty() || kinds == devices.begin()->second.kind;
  const bool by_speed = job.config.cluster.balance == Balance::kSpeed;
  const bool few = plan.logical_shards() < kFewPerWorker * plan.workers();
  if (alike || (by_speed && !few)) return "";
  const int64_t wanted = enough_shards(plan.global_batch, kWantedPerWorker * plan.workers());
  const bool more = few && wanted > plan.logical_shards();
  if (by_speed && !more) return "";
  std::string advice = text("workers differ (", kinds, "), and each step waits for the slowest: ");
  if (!by_speed) advice += "\"cluster.balance\": \"speed\" assigns logical shards by speed";
  if (more)
    advice += text(by_speed ? "" : ", and ", "\"cluster.logical_shards\": ", wanted, " (now ",
                   plan.logical_shards(), ") allows a finer balance");
  return advice;
}

}  // namespace poseidon::trainer
