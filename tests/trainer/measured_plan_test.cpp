// The plan by time that a run makes from its workers' measurements.

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

TEST_CASE("a run measures times only for policy \"time\" and without a stored plan") {
  const TinyJob tiny;
  CHECK(MeasuredPlan::wanted(by_time(tiny), nullptr, false));
  CHECK_FALSE(MeasuredPlan::wanted(tiny.load({"cluster.workers=2"}), nullptr, false));
  CHECK_FALSE(MeasuredPlan::wanted(tiny.load({"comm.policy=time"}), nullptr, false));
  CHECK_FALSE(MeasuredPlan::wanted(by_time(tiny, {"comm.scheme=ps"}), nullptr, false));
  CHECK(MeasuredPlan(by_time(tiny), nullptr, false).needs_link_rate());
  CHECK_FALSE(
      MeasuredPlan(by_time(tiny, {"comm.link_mbps=100"}), nullptr, false).needs_link_rate());
}

TEST_CASE("the slowest worker's times and the measured link make the plan") {
  const TinyJob tiny;
  const Job job = by_time(tiny);
  const LayerTimes times = times_of(job);
  double one = 0, slower = 0;
  for (const double factor : {1.0, 10.0}) {
    MeasuredPlan measured(job, nullptr, false);
    measured.set_link({.mbps = 940, .processor_ns_per_byte = 0.5});
    measured.add_times(0, times);
    LayerTimes others = times;
    for (LayerTimes::Layer& layer : others.layers)
      for (double* ms : {&layer.forward_ms, &layer.backward_ms}) *ms *= factor;
    measured.add_times(1, others);
    const comm::Plan plan = measured.make();
    CHECK(plan.policy == comm::Policy::kTime);
    CHECK(plan.link_mbps == 940);
    CHECK(plan.processor_ns_per_byte == doctest::Approx(0.5 / times.threads));
    (factor == 1 ? one : slower) = plan.predicted_step_ms;
  }
  CHECK(one > 0);
  CHECK(slower > one);
}

TEST_CASE("the predicted step counts devices of a worker as concurrent") {
  const TinyJob tiny;
  const Job job =
      by_time(tiny, {"comm.link_mbps=1e6", "cluster.logical_shards=8", "data.global_batch=16"});
  const auto predicted_ms = [&](int64_t devices) {
    LayerTimes times = times_of(job);
    for (LayerTimes::Layer& layer : times.layers) layer.forward_ms = layer.backward_ms = 10;
    times.devices = devices;
    MeasuredPlan measured(job, nullptr, false);
    measured.add_times(0, times);
    measured.add_times(1, times);
    return measured.make().predicted_step_ms;
  };
  CHECK(predicted_ms(1) == doctest::Approx(4 * predicted_ms(4)).epsilon(0.05));
  CHECK(predicted_ms(1) == doctest::Approx(2 * predicted_ms(3)).epsilon(0.05));
}

TEST_CASE("times of a replaced worker are ignored") {
  const TinyJob tiny;
  const Job job = by_time(tiny, {"comm.link_mbps=100"});
  const LayerTimes times = times_of(job);
  LayerTimes slow = times;
  for (LayerTimes::Layer& layer : slow.layers) layer.forward_ms *= 1000;
  MeasuredPlan measured(job, nullptr, false), expected(job, nullptr, false);
  expected.add_times(0, times);
  expected.add_times(1, times);
  measured.add_times(0, times);
  measured.add_times(1, slow);
  measured.forget(1);
  measured.add_times(1, times);
  CHECK(measured.make().predicted_step_ms == expected.make().predicted_step_ms);
}

TEST_CASE("a bandwidth limit below the measured link replaces it") {
  const TinyJob tiny;
  const Job job = by_time(tiny, {"comm.bandwidth_limit_mbps=50"});
  const LayerTimes times = times_of(job);
  MeasuredPlan measured(job, nullptr, false);
  CHECK(measured.needs_link_rate());
  measured.set_link({.mbps = 900});
  measured.add_times(0, times);
  CHECK(measured.make().link_mbps == 50);
}

TEST_CASE("missing layer times are refused, and times of other layers") {
  const TinyJob tiny;
  const Job job = by_time(tiny);
  MeasuredPlan measured(job, nullptr, false);
  CHECK(error_of<ConfigError>([&] { measured.make(); }) ==
        "no worker has reported its layer times");
  LayerTimes times = times_of(job);
  measured.add_times(0, times);
  times.layers[0].name = "other";
  measured.add_times(1, times);
  CHECK(error_of<ConfigError>([&] { measured.make(); }) ==
        "the times of worker 1: /layers: the layer \"conv\" is missing; expected the times of this "
        "network");
}

namespace {

/// Times of a device that is slower than that of `times` by this factor.
LayerTimes slower(LayerTimes times, double factor) {
  for (LayerTimes::Layer& layer : times.layers) {
    layer.forward_ms *= factor;
    layer.backward_ms *= factor;
  }
  times.pass_ms *= factor;
  return times;
}

std::vector<comm::Part> dealt(const Job& job, const std::vector<LayerTimes>& times,
                              const Checkpoint* resumed = nullptr, bool replan = false) {
  MeasuredPlan measured(job, resumed, replan);
  for (size_t i = 0; i < times.size(); ++i) measured.add_times(static_cast<uint16_t>(i), times[i]);
  return measured.make().assignment.ranges();
}

}  // namespace

TEST_CASE("balance \"speed\": shards are assigned by the times that workers measure") {
  const TinyJob tiny;
  const std::vector<std::string> words{"cluster.workers=2", "cluster.logical_shards=16",
                                       "data.global_batch=16"};
  CHECK_FALSE(MeasuredPlan::wanted(tiny.load(words), nullptr, false));
  std::vector<std::string> by_speed = words;
  by_speed.emplace_back("cluster.balance=speed");
  const Job job = tiny.load(by_speed);
  REQUIRE(MeasuredPlan::wanted(job, nullptr, false));
  CHECK_FALSE(MeasuredPlan(job, nullptr, false).needs_link_rate());
  LayerTimes times = times_of(job);
  CHECK(times.pass_ms > 0);
  times.update_ms = 0;
  times.pass_ms = 2.5;
  CHECK(dealt(job, {times, times}) == std::vector<comm::Part>{{0, 8}, {8, 8}});
  CHECK(dealt(job, {times, slower(times, 3)}) == std::vector<comm::Part>{{0, 12}, {12, 4}});
  CHECK(dealt(job, {slower(times, 3), times}) == std::vector<comm::Part>{{0, 4}, {4, 12}});
  LayerTimes of_three = times;
  of_three.devices = 3;
  CHECK(dealt(job, {times, of_three}) == std::vector<comm::Part>{{0, 4}, {4, 12}});
  of_three.devices = 16;
  CHECK(error_of<ConfigError>([&] {
          dealt(job, {times, of_three});
        }) ==
        "cluster.logical_shards: expected at least 17, one for each device of the workers, got "
        "16");
  // Without a measured time of a whole pass, the sum over the layers is used.
  times.pass_ms = 0;
  CHECK(dealt(job, {times, slower(times, 3)}) == std::vector<comm::Part>{{0, 12}, {12, 4}});
}

TEST_CASE("balance \"speed\": the provisional plan has a shard for each device of each worker") {
  const TinyJob tiny;
  const Job job =
      tiny.load({"cluster.workers=3", "cluster.logical_shards=16", "device.indices=[0, 0]",
                 "data.global_batch=16", "cluster.balance=speed"});
  CHECK(MeasuredPlan(job, nullptr, false).provisional().assignment.ranges() ==
        std::vector<comm::Part>{{0, 12}, {12, 2}, {14, 2}});
  LayerTimes times = times_of(job);
  times.update_ms = 0;
  times.pass_ms = 2.5;
  times.devices = 2;
  CHECK(dealt(job, {times, slower(times, 30), slower(times, 30)}) ==
        std::vector<comm::Part>{{0, 12}, {12, 2}, {14, 2}});
}

TEST_CASE("balance \"speed\": the message states each worker's shards and the reason") {
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.workers=2", "cluster.logical_shards=16",
                             "data.global_batch=16", "cluster.balance=speed"});
  LayerTimes times = times_of(job);
  times.update_ms = 0;
  times.pass_ms = 2.5;
  MeasuredPlan measured(job, nullptr, false);
  measured.add_times(0, times);
  CHECK(error_of<ConfigError>([&] { measured.make(); }) ==
        "not all workers have reported their layer times");
  measured.add_times(1, slower(times, 30));
  const comm::Plan plan = measured.make();
  CHECK(plan.assignment.ranges() == std::vector<comm::Part>{{0, 15}, {15, 1}});
  CHECK(measured.dealt() ==
        "logical shards by speed: 15 for worker 0 (2.5 ms each), 1 for worker 1 (75 ms each); the "
        "slowest worker computes 75 ms per step");
}

TEST_CASE("balance \"speed\": the predicted step is that of the slowest worker") {
  const TinyJob tiny;
  const std::vector<std::string> words{"cluster.workers=2", "cluster.logical_shards=16",
                                       "data.global_batch=16", "cluster.balance=speed",
                                       "comm.link_mbps=1e9"};
  const Job job = tiny.load(words);
  LayerTimes times = times_of(job);
  times.update_ms = times.pass_ms = 0;
  const auto predicted = [&](const Job& of, double factor) {
    MeasuredPlan measured(of, nullptr, false);
    measured.add_times(0, times);
    measured.add_times(1, slower(times, factor));
    return measured.make().predicted_step_ms;
  };
  // 12 shards on the fast worker take as long as 4 on the slow one.
  CHECK(predicted(job, 3) == doctest::Approx(12 * times.batch_ms()).epsilon(0.01));
  std::vector<std::string> even = words;
  even[3] = "comm.policy=time";
  CHECK(predicted(tiny.load(even), 3) == doctest::Approx(8 * 3 * times.batch_ms()).epsilon(0.01));
}
