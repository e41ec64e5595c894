// The plan by time that a run makes from what its workers measure.

#include "trainer/plan/measured_plan.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"
#include "trainer/measure/timing.h"
#include "trainer/plan/sync_plan.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

Job by_time(const TinyJob& tiny, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"comm.policy=time", "cluster.workers=2"});
  return tiny.load(more);
}

LayerTimes times_of(const Job& job) {
  SilentLog log;
  return read_layer_times(time_layers(job, {}, 1, log), "times");
}

}  // namespace

TEST_CASE("a run measures when it decides by time and has no plan that it keeps") {
  const TinyJob tiny;
  CHECK(MeasuredPlan::wanted(by_time(tiny), nullptr, false));
  CHECK_FALSE(MeasuredPlan::wanted(tiny.load({"cluster.workers=2"}), nullptr, false));
  CHECK_FALSE(MeasuredPlan::wanted(tiny.load({"comm.policy=time"}), nullptr, false));
  CHECK_FALSE(MeasuredPlan::wanted(by_time(tiny, {"comm.scheme=ps"}), nullptr, false));
  CHECK(MeasuredPlan(by_time(tiny)).wants_link());
  CHECK_FALSE(MeasuredPlan(by_time(tiny, {"comm.link_mbps=100"})).wants_link());
}

TEST_CASE("the slowest worker's times and the measured link make the plan") {
  const TinyJob tiny;
  const Job job = by_time(tiny);
  const LayerTimes times = times_of(job);
  double one = 0, slower = 0;
  for (const double factor : {1.0, 10.0}) {
    MeasuredPlan measured(job);
    measured.set_link({.mbps = 940, .processor_ns_per_byte = 0.5});
    measured.add_times(0, times);
    LayerTimes others = times;
    for (LayerTimes::Layer& layer : others.layers)
      for (double* ms : {&layer.forward_ms, &layer.backward_ms}) *ms *= factor;
    measured.add_times(1, others);
    measured.add_times(2, times);
    const comm::Plan plan = measured.make();
    CHECK(plan.policy == comm::Policy::kTime);
    CHECK(plan.link_mbps == 940);
    CHECK(plan.processor_ns_per_byte == doctest::Approx(0.5 / times.threads));
    (factor == 1 ? one : slower) = plan.predicted_step_ms;
  }
  CHECK(one > 0);
  CHECK(slower > one);
}

TEST_CASE("times of a worker that was replaced do not count") {
  const TinyJob tiny;
  const Job job = by_time(tiny, {"comm.link_mbps=100"});
  const LayerTimes times = times_of(job);
  LayerTimes slow = times;
  for (LayerTimes::Layer& layer : slow.layers) layer.forward_ms *= 1000;
  MeasuredPlan measured(job), expected(job);
  expected.add_times(0, times);
  expected.add_times(1, times);
  measured.add_times(0, times);
  measured.add_times(1, slow);
  measured.forget(1);
  measured.add_times(1, times);
  CHECK(measured.make().predicted_step_ms == expected.make().predicted_step_ms);
}

TEST_CASE("a limit of bandwidth is the link where it is less") {
  const TinyJob tiny;
  const Job job = by_time(tiny, {"comm.bandwidth_limit_mbps=50"});
  const LayerTimes times = times_of(job);
  MeasuredPlan measured(job);
  CHECK(measured.wants_link());
  measured.set_link({.mbps = 900});
  measured.add_times(0, times);
  CHECK(measured.make().link_mbps == 50);
}

TEST_CASE("times of other layers than the others' are refused, and none at all") {
  const TinyJob tiny;
  const Job job = by_time(tiny);
  MeasuredPlan measured(job);
  CHECK(error_of<ConfigError>([&] { measured.make(); }) ==
        "no worker has told what its layers take");
  LayerTimes times = times_of(job);
  measured.add_times(0, times);
  times.layers[0].name = "other";
  measured.add_times(1, times);
  CHECK(error_of<ConfigError>([&] { measured.make(); }) ==
        "worker 1 has timed other layers than other workers, or another batch");
}
