#pragma once

#include <map>
#include <string>

#include "comm/wire/transport.h"
#include "core/log.h"
#include "core/report_backoff.h"

namespace poseidon::comm {

/// Logs refused connections. Repeated refusals of one host for the same reason become one line with
/// a count, at growing intervals. It writes at most one line a second.
class RefusalLog {
 public:
  /// `log` must outlive this object.
  explicit RefusalLog(Log& log) : log_(log) {}

  /// `peer`: the "host:port" of the refused peer.
  void report(const std::string& peer, const std::string& why,
              Time now = std::chrono::steady_clock::now().time_since_epoch());

 private:
  struct Kind {
    int64_t unreported = 0;  ///< refusals since the last line
    ReportBackoff again;
    bool is_reported = false;
  };
  Kind& kind_of(const std::string& host, const std::string& why);

  Log& log_;
  std::map<std::string, Kind> kinds_;
  Time reported_at_{-std::chrono::hours(1)};
};

}  // namespace poseidon::comm
