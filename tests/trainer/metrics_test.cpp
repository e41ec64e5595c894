#include "trainer/report/metrics.h"

#include <doctest/doctest.h>

#include "tests/support/full_disk.h"
#include "tests/trainer/tiny_job.h"
#include "trainer/report/run_directory.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

StepReport report_of(int64_t step) {
  StepReport report;
  report.step = step;
  return report;
}

}  // namespace

TEST_CASE("a full disk does not end the run when metrics lines are written") {
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

TEST_CASE("an unreadable lock drops one metrics line, and another process's lock ends the run") {
  const TinyJob job;
  RunDirectory directory(job.folder / "run", false);
  directory.make();
  const fs::path lock = directory.path() / "run.lock", aside = directory.path() / "aside";
  Console console(Console::Mode::kSilent);
  Metrics metrics(directory.path(),
                  {.steps = 5, .before_writing = [&directory] { directory.check_lock(); }},
                  console);
  metrics.trained(report_of(1), false);
  // Longer than any lock file, as after an error of the file system.
  fs::copy_file(lock, aside);
  write_text(lock, std::string(100'000, 'x'));
  CHECK_THROWS_AS(directory.check_lock(), RunError);
  CHECK_NOTHROW(metrics.trained(report_of(2), false));
  fs::copy_file(aside, lock, fs::copy_options::overwrite_existing);
  metrics.trained(report_of(3), false);
  write_text(lock, R"({"host": "head", "pid": 7, "fence": 2})");
  CHECK(error_of<LockLost>([&] { metrics.trained(report_of(4), false); }) ==
        directory.path().string() + ": was taken over by process 7 on \"head\"");
  const std::string lines = read_text(directory.path() / "metrics.jsonl");
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 2);
}
