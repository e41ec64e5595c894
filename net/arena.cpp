#include "net/arena.h"

#include <algorithm>

namespace poseidon::net {

int Arena::add(size_t bytes, int first, int last, Purpose purpose) {
  intervals_.push_back({bytes, first, last});
  purposes_.push_back(purpose);
  return static_cast<int>(intervals_.size()) - 1;
}

void Arena::extend(int piece, int first, int last) {
  Interval& interval = intervals_[static_cast<size_t>(piece)];
  interval.first = std::min(interval.first, first);
  interval.last = std::max(interval.last, last);
}

int Arena::largest() const {
  return static_cast<int>(std::ranges::max_element(intervals_, {}, &Interval::bytes) -
                          intervals_.begin());
}

std::byte* Arena::memory(int piece) const {
  if (piece < 0 || block_.data() == nullptr) return nullptr;
  return static_cast<std::byte*>(block_.data()) + plan_.offsets[static_cast<size_t>(piece)];
}

}  // namespace poseidon::net
