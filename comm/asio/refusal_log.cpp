#include "comm/asio/refusal_log.h"

#include "comm/wire/address.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr Time kLeastPause = 1s, kFirstInterval = 10s, kLongestInterval = 1h;
/// Reasons come from unauthenticated peers. Reasons beyond this number share one kind.
constexpr size_t kMostKinds = 64;

}  // namespace

void RefusalLog::report(const std::string& peer, const std::string& why, Time now) {
  Kind& kind = kind_of(host_of(peer), why);
  ++kind.untold;
  if (now - told_at_ < kLeastPause) return;
  if (kind.is_told && !kind.again.is_due(now)) return;
  if (!kind.is_told) kind.again.begin(now);
  const std::string count =
      kind.untold == 1 ? "" : text(" (", kind.untold, " times since the last such message)");
  log_.warning(text("refused a connection from ", peer, ": ", why, kind.is_told ? count : ""));
  kind.is_told = true;
  kind.untold = 0;
  told_at_ = now;
}

RefusalLog::Kind& RefusalLog::kind_of(const std::string& host, const std::string& why) {
  const std::string key = text(host, ": ", why);
  const bool has_room = kinds_.size() < kMostKinds || kinds_.contains(key);
  return kinds_
      .try_emplace(has_room ? key : "",
                   Kind{.again = ReportBackoff(kFirstInterval, kLongestInterval)})
      .first->second;
}

}  // namespace poseidon::comm
