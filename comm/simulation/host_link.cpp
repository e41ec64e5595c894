#include "comm/simulation/host_link.h"

#include <algorithm>

namespace poseidon::comm {

HostLink::Sender HostLink::add() {
  outboxes_.emplace_back();
  return arbiter_.add(true);
}

void HostLink::push(Sender sender, uint32_t frame, Priority priority, uint64_t bytes) {
  std::vector<Waiting>& frames = outboxes_[sender].frames;
  frames.push_back({priority, frame, sequence_++, bytes});
  std::push_heap(frames.begin(), frames.end());
  if (frames.front().frame == frame) want(sender);
}

std::optional<uint32_t> HostLink::next(Time now) {
  hand_over(now);
  if (busy_ || handed_over_.empty()) return std::nullopt;
  busy_ = true;
  return handed_over_.front().frame;
}

void HostLink::has_left(Time now) {
  const Sender sender = handed_over_.front().sender;
  handed_over_.pop_front();
  busy_ = outboxes_[sender].unsent = false;
  arbiter_.drained(sender, now);
  want(sender);
}

void HostLink::hand_over(Time now) {
  while (const std::optional<Sender> sender = arbiter_.next(now)) {
    Outbox& from = outboxes_[*sender];
    from.unsent = true;
    std::pop_heap(from.frames.begin(), from.frames.end());
    handed_over_.push_back({*sender, from.frames.back().frame});
    from.frames.pop_back();
  }
}

void HostLink::pause(Sender sender, bool paused) {
  outboxes_[sender].paused = paused;
  if (paused)
    arbiter_.withdraw(sender);
  else
    want(sender);
}

std::vector<uint32_t> HostLink::drop(Sender sender) {
  arbiter_.withdraw(sender);
  std::vector<uint32_t> dropped;
  for (const Waiting& each : outboxes_[sender].frames) dropped.push_back(each.frame);
  outboxes_[sender].frames.clear();
  return dropped;
}

Time HostLink::leaves_at(uint64_t bytes, Time now) {
  return egress_free_ = std::max(now, egress_free_) + time_of(bytes);
}

Time HostLink::comes_at(uint64_t bytes, Time at) {
  return ingress_free_ = std::max(at, ingress_free_ + time_of(bytes));
}

Time HostLink::time_of(uint64_t bytes) const {
  return Time(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_second_));
}

/// A connection requests the link again when its queued frame has left.
void HostLink::want(Sender sender) {
  const Outbox& from = outboxes_[sender];
  if (from.unsent || from.paused || from.frames.empty()) return;
  arbiter_.want(sender, from.frames.front().priority, from.frames.front().bytes);
}

}  // namespace poseidon::comm
