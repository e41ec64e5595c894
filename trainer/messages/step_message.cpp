#include "trainer/messages/step_message.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "comm/plan/traffic.h"
#include "core/error.h"

namespace poseidon::trainer {

namespace {

/// Minimum total wait of a layer that TimeTable::workers() lists.
constexpr double kWorthNamingMs = 0.1;

double rounded_to_us(double ms) { return std::round(ms * 1000) / 1000; }

StepTimes divided(StepTimes times, double by) {
  return {.compute_ms = times.compute_ms / by,
          .data_wait_ms = times.data_wait_ms / by,
          .sum_wait_ms = times.sum_wait_ms / by};
}

void check_count(size_t got, size_t expected, const char* of_what) {
  if (got != expected)
    throw ConfigError(text("a worker reports ", got, of_what, ", expected ", expected));
}

void check_shards(size_t got, uint32_t rank, const comm::Plan& plan) {
  check_count(got, plan.assignment.shards_of(rank).count, " logical shards");
}

}  // namespace

SchemeBytes bytes_by_scheme(const comm::Plan& plan, std::span<const comm::LayerBytes> layers) {
  SchemeBytes bytes;
  for (size_t i = 0; i < layers.size(); ++i)
    bytes[plan.layers[i].scheme] += static_cast<int64_t>(layers[i].sent + layers[i].received);
  return bytes;
}

StepNote step_note(const StepReport& report, SchemeBytes bytes) {
  StepNote note{.shards = report.shards,
                .learning_rate = report.learning_rate,
                .times = report.times,
                .layer_wait_ms = {},
                .bytes = bytes};
  for (double ms : report.layer_wait_ms) note.layer_wait_ms.push_back(rounded_to_us(ms));
  return note;
}

WorkerStep worker_step(const StepNote& note, int64_t step, uint32_t rank, const comm::Plan& plan) {
  check_shards(note.shards.size(), rank, plan);
  check_count(note.layer_wait_ms.size(), plan.layers.size(), " layer wait times");
  WorkerStep out;
  out.report.step = step;
  out.report.shards = note.shards;
  out.report.learning_rate = note.learning_rate;
  out.report.times = note.times;
  out.report.layer_wait_ms = note.layer_wait_ms;
  out.bytes = note.bytes;
  return out;
}

StepReport join_steps(const std::vector<WorkerStep>& workers, const comm::Plan& plan) {
  StepReport whole;
  whole.layer_wait_ms.resize(plan.layers.size());
  StepTimes sum;
  // Each transfer counts twice: as sent by one node, and as received by another. Workers report
  // only what workers send and receive: a `ps` transfer once, an `sfb` transfer twice.
  const auto nodes = static_cast<double>(plan.assignment.hosts());
  whole.shards.resize(static_cast<size_t>(plan.logical_shards()));
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    const auto& [report, bytes] = workers[rank];
    whole.step = report.step;
    whole.learning_rate = report.learning_rate;
    std::ranges::copy(report.shards, whole.shards.begin() + plan.assignment.shards_of(rank).first);
    whole.workers.push_back(report.times);
    sum += report.times;
    for (size_t i = 0; i < whole.layer_wait_ms.size(); ++i)
      whole.layer_wait_ms[i] += report.layer_wait_ms[i] / static_cast<double>(workers.size());
    for (const comm::Scheme scheme : comm::kSendingSchemes)
      whole.bytes[scheme] +=
          2 * static_cast<double>(bytes[scheme]) / comm::worker_ends(scheme) / nodes;
  }
  whole.times = divided(sum, static_cast<double>(workers.size()));
  whole.mean = mean_of_shards(whole.shards, plan.global_batch);
  return whole;
}

void check_parts(const TestSums& sums, uint32_t rank, const comm::Plan& plan) {
  check_shards(sums.parts.size(), rank, plan);
}

TestResult join_tests(const std::vector<TestSums>& workers, const comm::Plan& plan) {
  TestSums whole;
  whole.parts.resize(static_cast<size_t>(plan.logical_shards()));
  for (uint32_t rank = 0; rank < workers.size(); ++rank) {
    const TestSums& own = workers[rank];
    whole.samples += own.samples;
    whole.seconds = std::max(whole.seconds, own.seconds);
    std::ranges::copy(own.parts, whole.parts.begin() + plan.assignment.shards_of(rank).first);
  }
  return whole.mean();
}

TimeTable::TimeTable(size_t workers, size_t layers)
    : workers_(workers, {.times = {}, .layer_wait_ms = std::vector<double>(layers)}) {}

void TimeTable::add(size_t worker, const StepReport& report) {
  workers_[worker].times += report.times;
  std::vector<double>& waits = workers_[worker].layer_wait_ms;
  for (size_t i = 0; i < waits.size(); ++i) waits[i] += report.layer_wait_ms[i];
}

Json TimeTable::workers(const comm::Plan& plan) const {
  Json out = Json::array();
  for (const Worker& worker : workers_) {
    std::vector<size_t> layers(worker.layer_wait_ms.size());
    std::iota(layers.begin(), layers.end(), size_t{0});
    std::ranges::stable_sort(layers, std::greater{},
                             [&](size_t i) { return worker.layer_wait_ms[i]; });
    Json waits = Json::array();
    for (size_t i : layers)
      if (worker.layer_wait_ms[i] >= kWorthNamingMs)
        waits.push_back(
            {{"layer", plan.layers[i].traffic.name}, {"s", worker.layer_wait_ms[i] / 1000}});
    out.push_back({{"worker", out.size()},
                   {"compute_s", worker.times.compute_ms / 1000},
                   {"data_wait_s", worker.times.data_wait_ms / 1000},
                   {"sum_wait_s", worker.times.sum_wait_ms / 1000},
                   {"sum_waits", std::move(waits)}});
  }
  return out;
}

double TimeTable::layer_wait_s(size_t layer) const {
  double ms = 0;
  for (const Worker& worker : workers_) ms += worker.layer_wait_ms[layer];
  return ms / static_cast<double>(workers_.size()) / 1000;
}

}  // namespace poseidon::trainer
