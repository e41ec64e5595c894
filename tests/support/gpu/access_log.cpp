#include "tests/support/gpu/access_log.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::cuda {

namespace {

void expect_order(const Stamp& earlier, const char* did, const Stamp& later, const char* does,
                  const Clock& before) {
  if (earlier.tick == 0 || earlier.is_before(before)) return;
  throw LogicError(text("\"", later.name, "\" in stream ", later.stream, " ", does, " what \"",
                        earlier.name, "\" in stream ", earlier.stream, " ", did,
                        ", and nothing orders them"));
}

}  // namespace

void Clock::join(const Clock& other) {
  ticks_.resize(std::max(ticks_.size(), other.ticks_.size()));
  for (size_t i = 0; i < other.ticks_.size(); ++i) ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
}

bool Clock::includes(const Clock& other) const {
  for (size_t stream = 0; stream < other.ticks_.size(); ++stream)
    if (of(stream) < other.ticks_[stream]) return false;
  return true;
}

void Clock::tick(size_t stream) {
  ticks_.resize(std::max(ticks_.size(), stream + 1));
  ++ticks_[stream];
}

void AccessLog::split(uintptr_t at) {
  auto range = ranges_.upper_bound(at);
  if (range == ranges_.begin()) return;
  --range;
  if (range->first == at || range->second.end <= at) return;
  Range behind = range->second;
  range->second.end = at;
  ranges_[at] = std::move(behind);
}

template <class Use>
void AccessLog::for_each(const void* data, size_t bytes, const Use& use) {
  uintptr_t at = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = at + bytes;
  split(at);
  split(end);
  while (at < end) {
    auto range = ranges_.lower_bound(at);
    if (range == ranges_.end() || range->first != at) {
      const uintptr_t next = range == ranges_.end() ? end : std::min(end, range->first);
      range = ranges_.emplace(at, Range{.end = next, .writer = {}, .readers = {}}).first;
    }
    use(range->second);
    at = range->second.end;
  }
}

void AccessLog::read(const void* data, size_t bytes, const Stamp& by, const Clock& before) {
  for_each(data, bytes, [&](Range& range) {
    if (range.writer.stream != by.stream || range.writer.tick != by.tick)
      expect_order(range.writer, "writes", by, "reads", before);
    std::erase_if(range.readers, [&](const Stamp& reader) { return reader.is_before(before); });
    range.readers.push_back(by);
  });
}

void AccessLog::write(const void* data, size_t bytes, const Stamp& by, const Clock& before) {
  const auto is_own = [&](const Stamp& stamp) {
    return stamp.stream == by.stream && stamp.tick == by.tick;
  };
  for_each(data, bytes, [&](Range& range) {
    if (!is_own(range.writer)) expect_order(range.writer, "writes", by, "writes", before);
    for (const Stamp& reader : range.readers)
      if (!is_own(reader)) expect_order(reader, "reads", by, "writes", before);
    range.writer = by;
    range.readers.clear();
  });
}

void AccessLog::forget(const void* data, size_t bytes) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  split(at);
  split(at + bytes);
  ranges_.erase(ranges_.lower_bound(at), ranges_.lower_bound(at + bytes));
}

}  // namespace poseidon::cuda
