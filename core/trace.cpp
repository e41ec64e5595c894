#include "core/trace.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"

namespace poseidon {

TraceRecorder::TraceRecorder(size_t capacity) : capacity_(capacity) {
  check(capacity > 0, "a ring of spans has a capacity of at least 1");
}

int64_t TraceRecorder::now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TraceRecorder::Label TraceRecorder::label(const LabelText& text) {
  const auto [found, is_new] = label_of_.try_emplace(text, static_cast<Label>(labels_.size()));
  if (is_new) labels_.push_back(text);
  return found->second;
}

void TraceRecorder::add(const Span& span) {
  if (ring_.size() < capacity_) return ring_.push_back(span);
  lost_up_to_ = std::max(lost_up_to_, ring_[next_].step);
  ring_[next_] = span;
  next_ = (next_ + 1) % capacity_;
}

std::vector<TraceRecorder::Span> TraceRecorder::spans(int64_t first_step) const {
  std::vector<Span> out;
  for (size_t i = 0; i < ring_.size(); ++i) {
    const Span& span = ring_[(next_ + i) % ring_.size()];
    if (span.step >= first_step && span.step > lost_up_to_) out.push_back(span);
  }
  return out;
}

}  // namespace poseidon
