#pragma once

#include <deque>
#include <map>
#include <vector>

#include "core/log.h"
#include "core/trace.h"
#include "trainer/messages/notes.h"
#include "trainer/report/run_directory.h"

/// Merges the spans of all threads of a run, on one or several hosts, into one file for the viewers
/// Perfetto and chrome://tracing. See docs/trace.md.
namespace poseidon::trainer {

inline constexpr const char* kTraceFile = "trace.json";

/// Limit on the steps in a trace: it contains only the last steps of a run.
inline constexpr int64_t kTraceSteps = 20;

/// A thread's spans of the last kTraceSteps steps, split into notes of limited size.
std::vector<TraceNote> write_spans(const TraceRecorder& recorder);

/// The note with which the coordinator requests a member's clock time, and the note with which the
/// member immediately answers.
ClockNote clock_question();
ClockNote clock_answer(ClockNote question);

/// Offset of another host's steady clock from the clock of this host. The other host reads its
/// clock after this host has sent the question and before this host receives the answer. So the
/// fastest round trip gives the narrowest bounds. Only the last 64 answers count, because clocks
/// drift.
class ClockOffset {
 public:
  /// Adds an answer. The question was sent at `asked_ns` and the answer arrived at `answered_ns` on
  /// this host's clock. `there_ns` is the time on the other clock.
  void add(int64_t asked_ns, int64_t there_ns, int64_t answered_ns);
  /// The offset: positive if the other clock is ahead. 0 before the first answer.
  int64_t nanoseconds() const;
  /// Upper bound on the error: half of the fastest recent round trip. 0 before the first answer.
  int64_t uncertainty_ns() const;

 private:
  struct Sample {
    int64_t round_trip_ns = 0, offset_ns = 0;
  };
  std::deque<Sample> samples_;
};

/// The spans of all members of a run.
class TraceCollection {
 public:
  /// Adds a note from write_spans(). Throws ConfigError if the content is invalid, or if the notes
  /// of `node` are too large.
  void add(comm::NodeId node, const TraceNote& note);
  /// Adds the answer of `node` to clock_question(), which arrived at `answered_ns`.
  void answered(comm::NodeId node, const ClockNote& answer, int64_t answered_ns);
  /// The content of trace.json, in the Trace Event Format: the steps that all threads have
  /// recorded. Times count from the first span, by this host's clock.
  Json events() const;

 private:
  struct Event {
    const TraceRecorder::LabelText* text = nullptr;
    comm::NodeId node;
    TraceRecorder::Span span;
  };
  /// The spans of one TraceNote. They are from one thread.
  struct Thread {
    comm::NodeId node;
    std::vector<TraceRecorder::LabelText> labels;
    std::vector<TraceRecorder::Span> spans;
  };
  std::vector<Event> common_events() const;

  std::vector<Thread> threads_;
  std::map<comm::NodeId, size_t> bytes_of_;  ///< received so far, by node
  std::map<comm::NodeId, ClockOffset> clocks_;
};

/// Writes trace.json into a run directory, and logs its path. Only warns if this fails.
void write_trace(const TraceCollection& trace, const RunDirectory& directory, Log& log);

}  // namespace poseidon::trainer
