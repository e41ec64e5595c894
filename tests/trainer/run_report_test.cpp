#include "trainer/report/run_report.h"

#include <doctest/doctest.h>

#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

StepReport report_of(int64_t step, double loss) {
  StepReport report;
  report.step = step;
  report.mean.loss = loss;
  return report;
}

TestResult test_of(double loss) {
  TestResult result;
  result.samples = 1;
  result.mean.loss = loss;
  return result;
}

const RunDirectory& made(RunDirectory& directory) {
  directory.make();
  return directory;
}

/// The report of a run of two steps, with a test after the second one.
struct Run {
  Run() {
    report.trained(report_of(1, 0.5), false);
    report.trained(report_of(2, 0.25), false);
    report.tested(2, test_of(0.75));
  }
  std::string lines() const { return read_text(directory.path() / "metrics.jsonl"); }

  const TinyJob job;
  Console console{Console::Mode::kSilent};
  RunDirectory directory{job.folder / "run", false};
  RunReport report{made(directory), Metrics::Options{.steps = 3}, console};
};

}  // namespace

TEST_CASE("a repeated step or test with the same result is not written again") {
  Run run;
  const std::string before = run.lines();
  CHECK(std::ranges::count(before, '\n') == 3);
  run.report.trained(report_of(2, 0.25), false);
  run.report.tested(2, test_of(0.75));
  CHECK(run.lines() == before);
  run.report.trained(report_of(3, 0.125), true);
  CHECK(std::ranges::count(run.lines(), '\n') == 4);
}

TEST_CASE("a repeated step or test with another result is an error") {
  Run run;
  CHECK_THROWS_WITH_AS(
      run.report.trained(report_of(2, 0.26), false),
      "step 2 was repeated after a node failure with another result: got loss 0.26, expected 0.25",
      ReplayDiffers);
  CHECK_THROWS_AS(run.report.tested(2, test_of(0.76)), ReplayDiffers);
}
