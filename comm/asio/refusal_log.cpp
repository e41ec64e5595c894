#include "comm/asio/refusal_log.h"

#include "comm/wire/address.h"
#include "core/error.h"

namespace poseidon::comm {

using namespace std::chrono_literals;

namespace {

constexpr Time kMinPause = 1s, kFirstInterval = 10s, kLongestInterval = 1h;
/// Limit on the stored pairs of host and reason. Unauthenticated peers choose the reasons, so the
/// table could otherwise fill the memory. Further pairs share one entry.
constexpr size_t kMaxKinds = 64;

}  // namespace

void RefusalLog::report(const std::string& peer, const std::string& why, Time now) {
  Kind& kind = kind_of(host_of(peer), why);
  ++kind.unreported;
  if (now - reported_at_ < kMinPause) return;
  if (kind.is_reported && !kind.again.is_due(now)) return;
  if (!kind.is_reported) kind.again.begin(now);
  const std::string count =
      kind.unreported == 1 ? ""
                           : text(" (", kind.unreported, " times since the last such message)");
  log_.warning(text("refused a connection from ", peer, ": ", why, kind.is_reported ? count : ""));
  kind.is_reported = true;
  kind.unreported = 0;
  reported_at_ = now;
}

RefusalLog::Kind& RefusalLog::kind_of(const std::string& host, const std::string& why) {
  const std::string key = text(host, ": ", why);
  const bool has_room = kinds_.size() < kMaxKinds || kinds_.contains(key);
  return kinds_
      .try_emplace(has_room ? key : "",
                   Kind{.again = ReportBackoff(kFirstInterval, kLongestInterval)})
      .first->second;
}

}  // namespace poseidon::comm
