#include "trainer/report/run_report.h"

#include <cmath>

#include "core/error.h"

namespace poseidon::trainer {

namespace {

Metrics::Options checked(Metrics::Options options, const RunDirectory& directory) {
  options.before_writing = [&directory] { directory.check_lock(); };
  return options;
}

bool are_near(double one, double other, double distance) {
  return std::abs(one - other) <= distance * std::abs(other);
}

void check_same(const std::string& what, const SampleSums& again, const SampleSums& before,
                double distance) {
  bool same =
      are_near(again.loss, before.loss, distance) && again.scalars.size() == before.scalars.size();
  for (size_t i = 0; same && i < before.scalars.size(); ++i)
    same = are_near(again.scalars[i], before.scalars[i], distance);
  if (!same)
    throw ReplayDiffers(
        text(what, " was made again after a loss, and did not come to the same: a loss of ",
             again.loss, ", expected ", before.loss, " as before"));
}

}  // namespace

RunReport::RunReport(const RunDirectory& directory, Metrics::Options options, Console& console)
    : directory_(directory),
      test_scalars_(options.test_scalars),
      metrics_(directory.path(), checked(std::move(options), directory), console) {}

void RunReport::trained(const StepReport& report, bool last) {
  if (report.step <= last_report_.step) return check_again(report);
  last_report_ = report;
  metrics_.trained(report, last);
}

/// Those who make a step again are never further behind than the last one that all had made.
void RunReport::check_again(const StepReport& report) const {
  if (report.step == last_report_.step)
    check_same(text("step ", report.step), report.mean, last_report_.mean, 0);
}

/// A test is added up in another order by other workers.
void RunReport::tested(int64_t step, const TestResult& result) {
  if (last_test_ && step <= tested_step_) {
    if (step == tested_step_)
      check_same(text("the test after step ", step), result.mean, last_test_->mean, 1e-9);
    return;
  }
  metrics_.tested(step, result);
  last_test_ = result;
  tested_step_ = step;
}

void RunReport::forget_after(int64_t step) {
  metrics_.forget_after(step);
  if (last_report_.step > step) last_report_ = {};
  if (tested_step_ <= step) return;
  last_test_.reset();
  tested_step_ = 0;
}

/// Of the last test; null where there was none, or no layer reports it.
Json RunReport::tested(const std::string& key) const {
  if (!last_test_) return {};
  const std::optional<double> value = test_scalars_.find(key, last_test_->mean);
  return value ? Json(*value) : Json();
}

Json RunReport::summary(const Job& job, const RunEnd& end) const {
  const bool trained = last_report_.step > 0;
  return {{"name", job.config.name},
          {"first_step", end.first_step + 1},
          {"steps", end.steps},
          {"train_loss", trained ? Json(last_report_.mean.loss) : Json()},
          {"test_top1", tested("top1")},
          {"test_top5", tested("top5")},
          {"test_loss", last_test_ ? Json(last_test_->mean.loss) : Json()},
          {"test_step", last_test_ ? Json(tested_step_) : Json()},
          {"samples_per_second", metrics_.samples_per_second()},
          {"bytes_sent", end.bytes_sent},
          {"bytes_received", end.bytes_received},
          {"wall_seconds", end.wall_seconds},
          {"weights_sha256", end.weights_sha256},
          {"state_sha256", end.state_sha256},
          {"workers", job.config.cluster.workers},
          {"servers", end.servers},
          {"device", end.device},
          {"threads", end.threads},
          {"finished", end.steps >= end.steps_of_job},
          {"checkpoint", end.checkpoint.string()},
          {"output", directory_.path().string()}};
}

}  // namespace poseidon::trainer
