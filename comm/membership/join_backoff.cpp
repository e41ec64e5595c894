#include "comm/membership/join_backoff.h"

#include <algorithm>

#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr Time kLongestWait = 1h;
constexpr int kMaxDoublings = 12;
/// Limit on the entries of `failures_`. Other processes choose the keys (names of hosts and
/// members), so the table could otherwise fill the memory.
constexpr size_t kMaxEntries = 256;

}  // namespace

int JoinBackoff::note(const std::string& from, const std::string& why, Time now, Time wait) {
  if (!failures_.contains(from)) make_room();
  Failure& failure = failures_[from];
  const int doublings = std::min(failure.count, kMaxDoublings);
  failure.count += 1;
  failure.why = why;
  failure.at = now;
  failure.refused_until = now + std::min(kLongestWait, wait * (1 << doublings));
  return failure.count;
}

std::string JoinBackoff::objection(const std::string& from, Time now) const {
  const auto found = failures_.find(from);
  if (found == failures_.end() || now >= found->second.refused_until) return "";
  const Failure& failure = found->second;
  return text("a node of this host failed before its first step",
              failure.count > 1 ? text(", ", failure.count, " times in a row") : "", ": ",
              failure.why, "; this host may join again later");
}

/// Drops the oldest entry if the table is full.
void JoinBackoff::make_room() {
  if (failures_.size() < kMaxEntries) return;
  failures_.erase(
      std::ranges::min_element(failures_, {}, [](const auto& entry) { return entry.second.at; }));
}

}  // namespace poseidon::comm
