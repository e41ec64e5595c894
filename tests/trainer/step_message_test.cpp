// Step reports of workers, and their combination over a step and over a run.

#include "trainer/messages/step_message.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

comm::Plan plan_of_two_layers() {
  comm::Plan plan;
  plan.assignment = comm::even_assignment(2, 2, false, 2);
  plan.global_batch = 8;
  plan.layers.resize(2);
  plan.layers[0].traffic.name = "conv";
  plan.layers[1].traffic.name = "fc";
  plan.layers[1].scheme = comm::Scheme::kSfb;
  return plan;
}

StepReport report_of(double scale) {
  StepReport report;
  report.step = 3;
  report.shards = {{.loss = 4 * scale, .scalars = {4 * scale, 2}}};
  report.learning_rate = 0.5;
  report.times = {.compute_ms = 10 * scale, .data_wait_ms = scale, .sum_wait_ms = 5 * scale};
  report.layer_wait_ms = {3 * scale, 2 * scale};
  return report;
}

SchemeBytes bytes_of(int64_t ps, int64_t sfb) {
  SchemeBytes bytes;
  bytes[comm::Scheme::kPs] = ps;
  bytes[comm::Scheme::kSfb] = sfb;
  return bytes;
}

WorkerStep sent_and_read(const StepReport& report, SchemeBytes bytes, const comm::Plan& plan) {
  const comm::Note note = write_note(step_note(report, bytes), report.step);
  return worker_step(read_note<StepNote>(note), note.step, 0, plan);
}

}  // namespace

TEST_CASE("bytes are counted by scheme") {
  const std::vector<comm::LayerBytes> layers{{.sent = 1, .received = 2}, {.sent = 10}};
  const SchemeBytes bytes = bytes_by_scheme(plan_of_two_layers(), layers);
  CHECK(bytes[comm::Scheme::kPs] == 3);
  CHECK(bytes[comm::Scheme::kSfb] == 10);
}

TEST_CASE("the step reports of all workers are joined to one") {
  const comm::Plan plan = plan_of_two_layers();
  const StepReport whole = join_steps({sent_and_read(report_of(1), bytes_of(100, 7), plan),
                                       sent_and_read(report_of(3), bytes_of(300, 9), plan)},
                                      plan);
  CHECK(whole.step == 3);
  CHECK(whole.shards.size() == 2);
  CHECK(whole.mean.loss == (4 + 12) / 8.0);
  CHECK(whole.mean.scalars == std::vector<double>{(4 + 12) / 8.0, 4 / 8.0});
  CHECK(whole.times.compute_ms == 20);
  CHECK(whole.times.wait_ms() == 2 + 10);
  CHECK(whole.layer_wait_ms == std::vector<double>{6, 4});
  REQUIRE(whole.workers.size() == 2);
  CHECK(whole.workers[1].compute_ms == 30);
  // Bytes to or from a server count at both ends, and both ends are on these two nodes.
  CHECK(whole.bytes[comm::Scheme::kPs] == 400);
  CHECK(whole.bytes[comm::Scheme::kSfb] == 8);
}

TEST_CASE("joined reports are in the order of the logical shards, for any assignment to workers") {
  comm::Plan plan = plan_of_two_layers();
  plan.assignment = comm::Assignment(
      std::vector<comm::AssignedWorker>{{.shards = {1, 2}}, {.shards = {0, 1}, .member = 1}},
      std::vector<comm::AssignedServer>{{}});
  StepReport two = report_of(1);
  two.shards = {{.loss = 20}, {.loss = 30}};
  StepReport one = report_of(1);
  one.shards = {{.loss = 10}};
  const StepReport whole =
      join_steps({{.report = two, .bytes = {}}, {.report = one, .bytes = {}}}, plan);
  REQUIRE(whole.shards.size() == 3);
  for (size_t shard = 0; shard < 3; ++shard)
    CHECK(whole.shards[shard].loss == 10 * static_cast<double>(shard + 1));
}

TEST_CASE("the tests of all workers are summed in order of the logical shards") {
  comm::Plan plan = plan_of_two_layers();
  plan.assignment = comm::Assignment(
      std::vector<comm::AssignedWorker>{{.shards = {1, 2}}, {.shards = {0, 1}, .member = 1}},
      std::vector<comm::AssignedServer>{{}});
  const TestSums two{.samples = 6, .parts = {{.loss = -1e16}, {.loss = 1}}, .seconds = 2};
  const TestSums one{.samples = 2, .parts = {{.loss = 1e16}}, .seconds = 3};
  const TestResult whole = join_tests({two, one}, plan);
  CHECK(whole.samples == 8);
  CHECK(whole.mean.loss == 0.125);
  CHECK(whole.seconds == 3);
}

TEST_CASE("a report of another network's layers is refused") {
  const comm::Plan plan = plan_of_two_layers();
  CHECK_THROWS_WITH_AS(check_parts({.parts = {{}, {}}}, 0, plan),
                       "a worker reports 2 logical shards, expected 1", ConfigError);
  StepReport report = report_of(1);
  report.layer_wait_ms.pop_back();
  CHECK_THROWS_WITH_AS(sent_and_read(report, {}, plan),
                       "a worker reports 1 layer wait times, expected 2", ConfigError);
  report = report_of(1);
  report.shards.emplace_back();
  CHECK_THROWS_WITH_AS(sent_and_read(report, {}, plan),
                       "a worker reports 2 logical shards, expected 1", ConfigError);
}

TEST_CASE("the time table sums the times of each worker") {
  const comm::Plan plan = plan_of_two_layers();
  TimeTable table(2, plan.layers.size());
  for (int step = 0; step < 100; ++step)
    for (size_t worker : {0, 1}) table.add(worker, report_of(static_cast<double>(worker + 1)));
  const Json workers = table.workers(plan);
  REQUIRE(workers.size() == 2);
  for (size_t i : {0, 1}) {
    CHECK(workers[i]["worker"] == i);
    CHECK(workers[i]["compute_s"].get<double>() == doctest::Approx(static_cast<double>(i + 1)));
    const Json& waits = workers[i]["sum_waits"];
    REQUIRE(waits.size() == 2);
    CHECK(waits[0]["layer"] == "conv");
    CHECK(waits[0]["s"].get<double>() + waits[1]["s"].get<double>() ==
          doctest::Approx(workers[i]["sum_wait_s"].get<double>()));
  }
  CHECK(table.layer_wait_s(0) == doctest::Approx(0.45));
}
