#include "comm/simulation/host_link.h"

#include <algorithm>

namespace poseidon::comm {

HostLink::Sender HostLink::add() {
  outboxes_.emplace_back();
  return egress_scheduler_.add(true);
}

void HostLink::push(Sender sender, uint32_t frame, Priority priority, uint64_t bytes) {
  std::vector<Waiting>& frames = outboxes_[sender].frames;
  frames.push_back({priority, frame, sequence_++, bytes});
  std::push_heap(frames.begin(), frames.end());
  if (frames.front().frame == frame) want(sender);
}

std::optional<uint32_t> HostLink::next(Time now) {
  queue_granted(now);
  if (busy_ || queued_.empty()) return std::nullopt;
  busy_ = true;
  return queued_.front().frame;
}

void HostLink::has_left(Time now) {
  const Sender sender = queued_.front().sender;
  queued_.pop_front();
  busy_ = outboxes_[sender].unsent = false;
  egress_scheduler_.drained(sender, now);
  want(sender);
}

void HostLink::queue_granted(Time now) {
  while (const std::optional<Sender> sender = egress_scheduler_.next(now)) {
    Outbox& from = outboxes_[*sender];
    from.unsent = true;
    std::pop_heap(from.frames.begin(), from.frames.end());
    queued_.push_back({*sender, from.frames.back().frame});
    from.frames.pop_back();
  }
}

void HostLink::pause(Sender sender, bool paused) {
  outboxes_[sender].paused = paused;
  if (paused)
    egress_scheduler_.withdraw(sender);
  else
    want(sender);
}

std::vector<uint32_t> HostLink::drop(Sender sender) {
  egress_scheduler_.withdraw(sender);
  std::vector<uint32_t> dropped;
  for (const Waiting& each : outboxes_[sender].frames) dropped.push_back(each.frame);
  outboxes_[sender].frames.clear();
  return dropped;
}

Time HostLink::leaves_at(uint64_t bytes, Time now) {
  return egress_free_ = std::max(now, egress_free_) + time_of(bytes);
}

Time HostLink::arrives_at(uint64_t bytes, Time at) {
  return ingress_free_ = std::max(at, ingress_free_ + time_of(bytes));
}

Time HostLink::time_of(uint64_t bytes) const {
  return Time(static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_second_));
}

/// Requests the link for the connection's most urgent waiting frame. Makes no request while the
/// connection is paused, or while it has another frame that was granted but not sent.
void HostLink::want(Sender sender) {
  const Outbox& from = outboxes_[sender];
  if (from.unsent || from.paused || from.frames.empty()) return;
  egress_scheduler_.want(sender, from.frames.front().priority, from.frames.front().bytes);
}

}  // namespace poseidon::comm
