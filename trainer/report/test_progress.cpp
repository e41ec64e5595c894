#include "trainer/report/test_progress.h"

#include "core/error.h"
#include "trainer/report/time_text.h"

namespace poseidon::trainer {

namespace {

constexpr auto kBetweenShows = std::chrono::milliseconds(100);
constexpr auto kFirstReport = std::chrono::seconds(10);

}  // namespace

void TestProgress::at(int64_t done, int64_t of) {
  const Clock::time_point now = Clock::now();
  if (done == 0) {
    start_ = now;
    next_ = console_.live() ? now + kBetweenShows : now + kFirstReport;
  }
  if (now < next_) return;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const double left = seconds * static_cast<double>(of - done) / static_cast<double>(done);
  const std::string line =
      text(what_, ": batch ", done, " of ", of, ", ", duration_text(left), " left");
  if (console_.live()) {
    console_.show(line);
    next_ = now + kBetweenShows;
  } else {
    console_.info(line);
    next_ = start_ + 2 * (now - start_);
  }
}

}  // namespace poseidon::trainer
