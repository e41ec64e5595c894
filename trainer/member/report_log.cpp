#include "trainer/member/report_log.h"

namespace poseidon::trainer {

void ReportLog::add(int64_t step, bool is_test, comm::Payload encoded) {
  const MutexLock lock(mutex_);
  bytes_ += encoded.bytes.size();
  entries_.push_back({step, is_test, std::move(encoded)});
  while (bytes_ > kMaxBytes) drop_oldest();
}

void ReportLog::drop_oldest() {
  bytes_ -= entries_.front().encoded.bytes.size();
  entries_.pop_front();
}

/// Keeps the test after `step`. The worker reports this test later than the step, so the
/// coordinator may have recorded the step but not yet the test.
void ReportLog::acknowledge(int64_t step) {
  const MutexLock lock(mutex_);
  while (!entries_.empty() && entries_.front().step + (entries_.front().is_test ? 1 : 0) <= step)
    drop_oldest();
}

void ReportLog::clear() {
  const MutexLock lock(mutex_);
  entries_.clear();
  bytes_ = 0;
}

std::vector<std::string> ReportLog::messages(int64_t step) const {
  const MutexLock lock(mutex_);
  std::vector<std::string> all;
  for (const Entry& entry : entries_) {
    if (entry.step > step) break;
    const auto* text = reinterpret_cast<const char*>(entry.encoded.bytes.data());
    all.emplace_back(text, entry.encoded.bytes.size());
  }
  return all;
}

}  // namespace poseidon::trainer
