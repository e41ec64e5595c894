#include "trainer/member/service_manager_reporter.h"

#include <algorithm>

namespace poseidon::trainer {

namespace {

/// Maximum interval between two checks of the parts.
constexpr std::chrono::milliseconds kPause{200};

}  // namespace

ServiceManagerReporter::ServiceManagerReporter(const std::string& address,
                                               std::chrono::microseconds period, Parts parts,
                                               std::stop_token stop)
    : notifier_(address),
      period_(period),
      parts_(std::move(parts)),
      stopping_(std::move(stop), [this] { notifier_.stopping(); }),
      thread_([this] { watch(); }) {}

ServiceManagerReporter::~ServiceManagerReporter() {
  {
    MutexLock lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

ServiceManagerReporter::Clock::duration ServiceManagerReporter::pause() const {
  return period_.count() == 0 ? Clock::duration(kPause)
                              : std::min<Clock::duration>(kPause, period_ / 4);
}

void ServiceManagerReporter::watch() {
  MutexLock lock(mutex_);
  while (!over_) {
    report(Clock::now());
    changed_.wait_until(mutex_, Clock::now() + pause());
  }
}

/// Reports readiness, status and liveness if they are due. If the manager does not accept a report,
/// the next call repeats it.
void ServiceManagerReporter::report(Clock::time_point now) {
  for (const auto& part : parts_) part->ask();
  const auto has_begun = [](const auto& part) { return part->has_begun(); };
  if (!said_ready_) said_ready_ = std::ranges::all_of(parts_, has_begun) && notifier_.ready();
  if (!said_ready_) return;
  if (const std::string line = status(); line != said_status_ && notifier_.status(line))
    said_status_ = line;
  report_alive(now);
}

/// If every part had a heartbeat since the last report, sends one more report. Reports are a
/// quarter of the period apart, so a part without a heartbeat is detected at most a quarter of the
/// period late.
void ServiceManagerReporter::report_alive(Clock::time_point now) {
  if (period_.count() == 0 || now - said_alive_ < period_ / 4) return;
  const auto lives = [&](const auto& part) { return part->beat_after(said_alive_); };
  if (std::ranges::all_of(parts_, lives) && notifier_.alive()) said_alive_ = now;
}

std::string ServiceManagerReporter::status() const {
  std::string line;
  for (const auto& part : parts_) line += (line.empty() ? "" : "; ") + part->status();
  return line;
}

}  // namespace poseidon::trainer
