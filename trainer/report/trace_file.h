#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <vector>

#include "core/log.h"
#include "core/trace.h"
#include "trainer/messages/notes.h"

/// From spans of many threads on many hosts to one file that Perfetto and chrome://tracing show.
/// docs/trace.md.
namespace poseidon::trainer {

inline constexpr const char* kTraceFile = "trace.json";

/// A trace holds the last steps of a run only.
inline constexpr int64_t kTraceSteps = 20;

/// A thread's spans of the last kTraceSteps steps, in notes of moderate size.
std::vector<TraceNote> write_spans(const TraceRecorder& recorder);

/// Coordinator to member: what time is it? The member answers at once.
ClockNote clock_question();
ClockNote clock_answer(ClockNote question);

/// How far another host's steady clock is ahead of ours. Questions and answers tell: the time of
/// the answer lies between them, most narrowly for the fastest one of late.
class ClockOffset {
 public:
  void add(int64_t asked_ns, int64_t there_ns, int64_t answered_ns);
  /// 0 while nothing is known.
  int64_t nanoseconds() const;
  /// Half the time of that fastest answer: the offset cannot be further off.
  int64_t uncertainty_ns() const;

 private:
  struct Sample {
    int64_t round_trip_ns = 0, offset_ns = 0;
  };
  std::deque<Sample> samples_;
};

/// The spans of all processes of a run.
class TraceCollection {
 public:
  /// One of write_spans(). Throws ConfigError for what no recorder gives, and for too much.
  void add(comm::NodeId node, const TraceNote& note);
  void answered(comm::NodeId node, const ClockNote& answer, int64_t answered_ns);
  /// Those steps that all threads have whole, on our clock, in the Trace Event Format.
  Json events() const;

 private:
  struct Event {
    const TraceRecorder::LabelText* text = nullptr;
    comm::NodeId node;
    TraceRecorder::Span span;
  };
  /// A thread's part of it.
  struct Thread {
    comm::NodeId node;
    std::vector<TraceRecorder::LabelText> labels;
    std::vector<TraceRecorder::Span> spans;
  };
  std::vector<Event> common_events() const;

  std::vector<Thread> threads_;
  std::map<comm::NodeId, size_t> bytes_of_;  ///< of what a node has told
  std::map<comm::NodeId, ClockOffset> clocks_;
};

/// Writes trace.json into a run directory, and says so.
void write_trace(const TraceCollection& trace, const std::filesystem::path& folder, Log& log);

}  // namespace poseidon::trainer
