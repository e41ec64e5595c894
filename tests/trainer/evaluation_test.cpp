// A test of a net that several workers compute together.

#include "trainer/step/evaluation.h"

#include <doctest/doctest.h>

#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/messages/step_message.h"

using namespace poseidon;
using namespace poseidon::trainer;

TEST_CASE("the mean of a test has the same bits with any number of workers") {
  const TinyJob tiny;
  const Job job =
      tiny.load({"data.global_batch=6", "cluster.logical_shards=6", "data.test.samples=203"});
  SilentLog log;
  Training training(job);
  const PreparedData data = open_test_data(job, training.data, log);
  BufferCache memory = batch_cache(training.engine.net());
  const auto mean_of = [&](const std::vector<int64_t>& shards_of_worker) {
    comm::Plan plan;
    plan.assignment = comm::assignment_by_counts(shards_of_worker, 1, false);
    std::vector<TestSums> workers;
    for (uint32_t rank = 0; rank < shards_of_worker.size(); ++rank) {
      const comm::Part own = plan.assignment.shards_of(rank);
      workers.push_back(*evaluate_part(
          training.engine.net(), data,
          {.parts = 6, .own_parts = {.first = own.first, .count = own.count}}, memory, log));
    }
    return join_tests(workers, plan);
  };
  const TestResult alone = mean_of({6});
  CHECK(alone.samples == 203);
  for (const std::vector<int64_t>& shards :
       {std::vector<int64_t>{3, 3}, {2, 2, 2}, {4, 2}, {1, 1, 1, 1, 1, 1}}) {
    CAPTURE(shards.size());
    const TestResult shared = mean_of(shards);
    CHECK(shared.samples == alone.samples);
    CHECK(shared.mean.loss == alone.mean.loss);
    CHECK(shared.mean.scalars == alone.mean.scalars);
  }
}
