#include "comm/wire/egress_scheduler.h"

#include <algorithm>

namespace poseidon::comm {

EgressScheduler::Sender EgressScheduler::add(bool leaves_host) {
  if (free_.empty()) {
    free_.push_back(static_cast<Sender>(connections_.size()));
    connections_.emplace_back();
  }
  const Sender sender = free_.back();
  free_.pop_back();
  connections_[sender] = {.leaves_host = leaves_host};
  if (leaves_host) ++leaving_;
  return sender;
}

void EgressScheduler::remove(Sender sender) {
  Connection& gone = connections_[sender];
  if (counts(gone)) held_ -= gone.held;
  if (gone.leaves_host) --leaving_;
  gone = {};
  free_.push_back(sender);
}

void EgressScheduler::want(Sender sender, Priority priority, uint64_t bytes) {
  Connection& wanting = connections_[sender];
  wanting.wanted = bytes;
  if (wanting.ticket != 0 && wanting.priority == priority)
    return;  // keeps its position in the heap
  wanting.priority = priority;
  wanting.ticket = ++tickets_;
  Heap& heap = heap_of(wanting);
  heap.push_back({priority, sender, wanting.ticket});
  std::push_heap(heap.begin(), heap.end());
}

void EgressScheduler::withdraw(Sender sender) { connections_[sender].ticket = 0; }

std::optional<EgressScheduler::Sender> EgressScheduler::next(Time now) {
  if (rate_.free_at(now) > now) return std::nullopt;
  if (held_ > 0 && now >= late_at_) find_late(now);
  auto& [within, beyond] = waiting_;
  const Waiting *near = first(within), *far = first(beyond);
  if (far != nullptr && !has_credit(connections_[far->sender])) far = nullptr;
  if (near == nullptr && far == nullptr) return std::nullopt;
  const bool leaves = near == nullptr || (far != nullptr && *near < *far);
  return grant(leaves ? beyond : within, now);
}

void EgressScheduler::drained(Sender sender, Time now) {
  Connection& each = connections_[sender];
  if (each.held == 0) return;
  if (counts(each)) held_ -= each.held;
  if (each.leaves_host) {
    each.late = now > each.since + grace_period();
    link_rate_.sent(each.held, each.since, now);
  }
  each.held = 0;
}

std::optional<Time> EgressScheduler::changes_at(Time now) {
  const Waiting *near = first(waiting_[0]), *far = first(waiting_[1]);
  if (near == nullptr && far == nullptr) return std::nullopt;
  const Time free_at = rate_.free_at(now);
  const bool has_turn = near != nullptr || has_credit(connections_[far->sender]);
  return has_turn ? free_at : std::max(free_at, late_at_);
}

/// The first waiting frame of a heap, or nullptr. Removes withdrawn frames from the front.
const EgressScheduler::Waiting* EgressScheduler::first(Heap& heap) {
  while (!heap.empty() && connections_[heap.front().sender].ticket != heap.front().ticket) {
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
  }
  return heap.empty() ? nullptr : &heap.front();
}

bool EgressScheduler::has_credit(const Connection& each) const {
  if (!counts(each) || held_ == 0 || held_ + each.wanted <= kCredit) return true;
  return each.held + each.wanted <= kSliceFrame && is_as_urgent_as_all_held(each.priority);
}

bool EgressScheduler::is_as_urgent_as_all_held(Priority priority) const {
  return std::ranges::none_of(connections_, [priority](const Connection& each) {
    return counts(each) && each.held > 0 && each.held_priority < priority;
  });
}

EgressScheduler::Sender EgressScheduler::grant(Heap& heap, Time now) {
  const Sender sender = heap.front().sender;
  std::pop_heap(heap.begin(), heap.end());
  heap.pop_back();
  Connection& each = connections_[sender];
  each.ticket = 0;
  rate_.spend(each.wanted, now);
  if (each.held == 0) each.since = now;
  each.held += each.wanted;
  each.held_priority = each.priority;
  if (!counts(each)) return sender;
  const Time late_at = each.since + grace_period();
  late_at_ = held_ == 0 ? late_at : std::min(late_at_, late_at);
  held_ += each.wanted;
  return sender;
}

void EgressScheduler::find_late(Time now) {
  const Time grace = grace_period();
  late_at_ = now + grace;
  for (Connection& each : connections_) {
    if (!counts(each) || each.held == 0) continue;
    late_at_ = std::min(late_at_, each.since + grace);
    if (now < each.since + grace) continue;
    each.late = true;
    held_ -= each.held;
  }
}

/// The grace period of all bytes that may be queued on the link: kCredit, or one slice per
/// connection if that is more.
Time EgressScheduler::grace_period() const {
  return link_rate_.grace_period(std::max(kCredit, leaving_ * kSliceFrame));
}

}  // namespace poseidon::comm
