#include "comm/wire/send_queue.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

Payload copy_of(std::span<const std::byte> bytes) {
  const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return {.bytes = *copy, .owner = copy};
}

void SendQueue::push(OutFrame frame, Priority priority) {
  by_priority_[priority].push_back(std::move(frame));
}

OutFrame SendQueue::pop() {
  const auto first = by_priority_.begin();
  OutFrame frame = std::move(first->second.front());
  first->second.pop_front();
  if (first->second.empty()) by_priority_.erase(first);
  return frame;
}

void SendQueue::keep_urgent() {
  by_priority_.erase(by_priority_.upper_bound(kUrgent), by_priority_.end());
  for (auto& [priority, frames] : by_priority_)
    for (OutFrame& frame : frames)
      if (frame.payload.owner == nullptr) frame.payload = copy_of(frame.payload.bytes);
}

void SendBatch::add(OutFrame frame, FrameSeal& seal) {
  const auto body = frame.payload.bytes;
  check(frames_.size() < kMaxFrames, "a frame is added only to a batch with room");
  check(frame.header.length == 0 || frame.header.length == body.size(),
        "a socket needs a frame's bytes, not only their number");
  check(!is_bulk(frame.header.kind) || !body.empty(), "a bulk frame has a body");
  frame.header.length = body.size();
  seal.add(body);
  frame.header.body_seal = seal.of_body();
  auto& header = headers_[frames_.size()];
  header = encode(frame.header, seal);
  pieces_.push_back(header);
  pieces_.push_back(body);
  bytes_ += frame.bytes();
  frames_.push_back(std::move(frame));
}

void SendBatch::advance(size_t count) {
  while (next_ < pieces_.size() && count >= pieces_[next_].size()) count -= pieces_[next_++].size();
  if (done())
    clear();
  else
    pieces_[next_] = pieces_[next_].subspan(count);
}

void SendBatch::keep_bodies() {
  for (size_t i = next_; i < pieces_.size(); ++i) {
    Payload& payload = frames_[i / 2].payload;
    if (i % 2 == 0 || payload.owner != nullptr) continue;
    payload = copy_of(pieces_[i]);
    pieces_[i] = payload.bytes;
  }
}

void SendBatch::clear() {
  frames_.clear();
  pieces_.clear();
  next_ = 0;
  bytes_ = 0;
}

}  // namespace poseidon::comm
