#pragma once

#include <chrono>

#include "trainer/report/trace_file.h"

namespace poseidon::trainer {

class CoordinatorIo;

/// The trace of a run on several hosts, whose clocks are compared while it goes on. Used by the
/// main thread.
class ClusterTrace {
 public:
  /// `io` must outlive it; `wanted`: with --trace, without which nothing is asked for.
  ClusterTrace(CoordinatorIo& io, bool wanted) : io_(io), wanted_(wanted) {}

  /// Asks all members what time it is, if that was not done just now: clocks drift, and the fastest
  /// answers count.
  void ask_for_time();
  void answered(comm::NodeId node, const ClockNote& answer, int64_t answered_ns) {
    trace_.answered(node, answer, answered_ns);
  }
  /// Throws ConfigError for a trace that was not asked for, or is none.
  void add(comm::NodeId node, const TraceNote& note);
  void write(const std::filesystem::path& folder, Log& log) const;

 private:
  using Clock = std::chrono::steady_clock;

  CoordinatorIo& io_;
  const bool wanted_;
  TraceCollection trace_;
  Clock::time_point asked_{};
};

}  // namespace poseidon::trainer
