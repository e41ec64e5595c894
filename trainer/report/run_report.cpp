#include "trainer/report/run_report.h"

namespace poseidon::trainer {

namespace {

Metrics::Options checked(Metrics::Options options, const RunDirectory& directory) {
  options.before_writing = [&directory] { directory.check_lock(); };
  return options;
}

}  // namespace

RunReport::RunReport(const RunDirectory& directory, Metrics::Options options, Console& console)
    : directory_(directory),
      metrics_(directory.path(), checked(std::move(options), directory), console) {}

void RunReport::trained(const StepReport& report, bool last) {
  last_report_ = report;
  metrics_.trained(report, last);
}

void RunReport::tested(int64_t step, const TestResult& result) {
  metrics_.tested(step, result);
  last_test_ = result;
  tested_step_ = step;
}

Json RunReport::summary(const Job& job, const RunEnd& end) const {
  const bool trained = last_report_.step > 0;
  return {{"name", job.config.name},
          {"first_step", end.first_step + 1},
          {"steps", end.steps},
          {"train_loss", trained ? Json(last_report_.loss) : Json()},
          {"test_top1", last_test_ ? Json(last_test_->top1) : Json()},
          {"test_top5", last_test_ ? Json(last_test_->top5) : Json()},
          {"test_loss", last_test_ ? Json(last_test_->loss) : Json()},
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
