#include "comm/simulation/event_queue.h"

#include <algorithm>

namespace poseidon::comm {

namespace {

constexpr auto kLater = [](const Event& a, const Event& b) {
  return a.at != b.at ? a.at > b.at : a.sequence > b.sequence;
};

}  // namespace

void EventQueue::schedule(Event event) {
  event.sequence = sequence_++;
  events_.push_back(std::move(event));
  std::push_heap(events_.begin(), events_.end(), kLater);
}

Event EventQueue::take() {
  std::pop_heap(events_.begin(), events_.end(), kLater);
  Event event = std::move(events_.back());
  events_.pop_back();
  now_ = std::max(now_, event.at);
  return event;
}

}  // namespace poseidon::comm
