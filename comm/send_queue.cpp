#include "comm/send_queue.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

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
}

void SendBatch::add(OutFrame frame) {
  const auto body = frame.payload.bytes;
  check(!full(), "a full batch of frames takes no more");
  check(frame.header.length == 0 || frame.header.length == body.size(),
        "a socket sends bytes, not the number of bytes");
  frame.header.length = body.size();
  frame.header.body_crc = body_checksum(body);
  auto& header = headers_[frames_.size()];
  header = encode(frame.header);
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
    const auto copy =
        std::make_shared<std::vector<std::byte>>(pieces_[i].begin(), pieces_[i].end());
    pieces_[i] = *copy;
    payload = {.bytes = *copy, .owner = copy};
  }
}

void SendBatch::clear() {
  frames_.clear();
  pieces_.clear();
  next_ = 0;
  bytes_ = 0;
}

}  // namespace poseidon::comm
