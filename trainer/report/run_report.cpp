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
    throw ReplayDiffers(text(what,
                             " was repeated after a node failure with another result: got loss ",
                             again.loss, ", expected ", before.loss));
}

}  // namespace

RunReport::RunReport(const RunDirectory& directory, Metrics::Options options, Console& console)
    : directory_(directory),
      test_scalars_(options.test_scalars),
      steps_(options.steps),
      metrics_(directory.path(), checked(options, directory), console),
      history_({.run = directory.path(),
                .steps_done = options.steps_done,
                .last_line = metrics_.earlier().last,
                .before_writing = [&directory] { directory.check_lock(); }},
               console) {}

void RunReport::trained(const StepReport& report, bool last) {
  if (report.step <= last_report_.step) return check_again(report);
  history_.begin();
  last_report_ = report;
  metrics_.trained(report, last);
}

/// Throws ReplayDiffers if a repeated step differs from its first result. Only the result of the
/// last step is stored. This is enough: after a node failure, the members repeat at most this step,
/// or forget_after() discards it.
void RunReport::check_again(const StepReport& report) const {
  if (report.step == last_report_.step)
    check_same(text("step ", report.step), report.mean, last_report_.mean, 0);
}

/// A repeated test is compared with a tolerance, because other workers may sum it in another order.
void RunReport::tested(int64_t step, const TestResult& result) {
  if (last_test_ && step <= tested_step_) {
    if (step == tested_step_)
      check_same(text("the test after step ", step), result.mean, last_test_->mean, 1e-9);
    return;
  }
  const Json& earlier = metrics_.earlier().last_test;
  if (!last_test_ && !earlier.is_null() && step <= earlier["step"].get<int64_t>()) return;
  history_.begin();
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

void RunReport::end(int64_t steps, const std::string& failure) {
  metrics_.end();
  const std::string how = !failure.empty() ? "failed: " + failure
                          : steps < steps_ ? "stopped"
                                           : "finished";
  history_.end(steps, how);
}

/// Loss of the last step. If this session has made no step, the loss of the last step in the
/// metrics of earlier sessions; null if there is none.
Json RunReport::trained_loss() const {
  if (last_report_.step > 0) return last_report_.mean.loss;
  const Json& earlier = metrics_.earlier().last_train;
  return earlier.is_null() ? Json() : earlier.value("loss", Json());
}

/// A value of the last test, possibly of an earlier session. null if there was no test, or if no
/// layer reports the value.
Json RunReport::tested(const std::string& key) const {
  if (!last_test_) {
    const Json& earlier = metrics_.earlier().last_test;
    return earlier.is_null() ? Json() : earlier.value(key, Json());
  }
  if (key == "loss") return last_test_->mean.loss;
  if (key == "step") return tested_step_;
  const std::optional<double> value = test_scalars_.find(key, last_test_->mean);
  return value ? Json(*value) : Json();
}

Json RunReport::summary(const Job& job, const RunEnd& end) const {
  return {{"name", job.config.name},
          {"first_step", end.first_step + 1},
          {"steps", end.steps},
          {"train_loss", trained_loss()},
          {"test_top1", tested("top1")},
          {"test_top5", tested("top5")},
          {"test_loss", tested("loss")},
          {"test_step", tested("step")},
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
