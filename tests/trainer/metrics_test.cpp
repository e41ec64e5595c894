#include "trainer/report/metrics.h"

#include <doctest/doctest.h>

#include "tests/support/full_disk.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

StepReport report_of(int64_t step) {
  StepReport report;
  report.step = step;
  return report;
}

}  // namespace

TEST_CASE("lines of metrics that do not fit on the disk do not end the run") {
  const TinyJob job;
  Console console(Console::Mode::kSilent);
  Metrics metrics(job.folder, {.steps = 3}, console);
  metrics.trained(report_of(1), false);
  {
    const FullDisk full(16);
    CHECK_NOTHROW(metrics.trained(report_of(2), false));
    CHECK_NOTHROW(metrics.tested(2, {.samples = 1}));
  }
  metrics.trained(report_of(3), true);
  const std::string lines = read_text(job.folder / "metrics.jsonl");
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 2);
  CHECK(lines.find("\"step\":3") != std::string::npos);
}
