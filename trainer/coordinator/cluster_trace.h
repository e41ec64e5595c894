#pragma once

#include <chrono>

#include "trainer/report/trace_file.h"

namespace poseidon::trainer {

class CoordinatorIo;

/// The trace of a run on several workers. Measures the offset of each member's clock during the
/// run. Used by the main thread.
class ClusterTrace {
 public:
  /// `io` must outlive this object. `wanted`: the run has --trace. Without --trace no clocks are
  /// measured.
  ClusterTrace(CoordinatorIo& io, bool wanted) : io_(io), wanted_(wanted) {}

  /// Requests the clock time of all members, at most every 200 ms. Call it repeatedly during the
  /// run, because clocks drift. Only the fastest recent answer of each member counts. Does nothing
  /// without --trace.
  void ask_for_time();
  /// Adds the answer of a member to ask_for_time(). `answered_ns`: arrival of the answer on this
  /// host's clock.
  void answered(comm::NodeId node, const ClockNote& answer, int64_t answered_ns) {
    trace_.answered(node, answer, answered_ns);
  }
  /// Adds spans of a member. Throws ConfigError for an invalid or unexpected trace.
  void add(comm::NodeId node, const TraceNote& note);
  /// Writes trace.json into the run directory. Does nothing without --trace. Only warns if the
  /// file cannot be written.
  void write(const RunDirectory& directory, Log& log) const;

 private:
  using Clock = std::chrono::steady_clock;

  CoordinatorIo& io_;
  const bool wanted_;
  TraceCollection trace_;
  Clock::time_point asked_{};
};

}  // namespace poseidon::trainer
