#pragma once

#include <string>
#include <vector>

#include "comm/plan/counters.h"
#include "comm/plan/schemes.h"
#include "comm/wire/messages.h"
#include "core/error.h"
#include "trainer/job/layer_times.h"
#include "trainer/state/checkpoint.h"
#include "trainer/state/tensor_store.h"
#include "trainer/step/evaluation.h"
#include "trainer/step/step_report.h"

/// The notes between the coordinator and the members of a job, in addition to comm's own messages.
/// Each struct is the content of one kind of note; kAbout is its comm::Note::about.
/// docs/wire-format.md describes when each note is sent.
namespace poseidon::trainer {

/// Worker to coordinator, before the plan is made: the times of its layers.
struct TimesNote : LayerTimes {
  static constexpr const char* kAbout = "times";
};

/// Worker to coordinator, after the worker has built its net. Contains the tensors of a checkpoint,
/// choices (layout and algorithm) and implementations by layer, and the number of compute threads.
struct TensorsNote {
  static constexpr const char* kAbout = "tensors";
  Json list = Json::object();  ///< from tensor_list()
  Json choices = Json::object();
  Json implementations = Json::object();  ///< from implementations_json()
  int64_t threads = 1;
  void describe(Fields& fields);
};

/// Worker to coordinator, before comm::Prepared: the worker has an in-memory checkpoint of the run,
/// and can send it.
struct CheckpointOfferNote {
  static constexpr const char* kAbout = "kept";
  std::string run;   ///< RunDirectory::id()
  int64_t rank = 0;  ///< rank of the worker in that run's last view
  RunState state;
  Json list = Json::object();  ///< from tensor_list()
  void describe(Fields& fields);
};

/// Worker to coordinator, after CheckpointOfferNote: a report of one of the run's last steps or
/// tests. The worker has sent this report to an earlier coordinator, which may not have recorded
/// it.
struct SavedReportNote {
  static constexpr const char* kAbout = "kept_report";
  std::string report;  ///< an encoded note with StepNote or TestNote
  void describe(Fields& fields);
};

/// Coordinator to worker, at most once a second: the coordinator has recorded all steps up to the
/// note's step, and all tests before that step.
struct RecordedNote {
  static constexpr const char* kAbout = "recorded";
  void describe(Fields&) {}
};

/// Coordinator to worker: requests the worker's in-memory checkpoint before the job begins. In a
/// running job, requests the current values for joiners. In both cases the worker sends a
/// checkpoint.
struct FetchNote {
  static constexpr const char* kAbout = "fetch";
  void describe(Fields&) {}
};

/// Coordinator to worker, after the plan: the indices of the tensors in the worker's
/// TensorsNote::list whose values the coordinator sends. The worker initializes the other tensors
/// from the seed.
struct ValuesNote {
  static constexpr const char* kAbout = "values";
  std::vector<int64_t> tensors;
  void describe(Fields& fields);
};

/// Worker 0 to coordinator, after the worker has built its net: names of the classes, in the order
/// of their labels.
struct ClassesNote {
  static constexpr const char* kAbout = "classes";
  std::vector<std::string> classes;
  void describe(Fields& fields);
};

/// Worker to coordinator, after each step: results and times of the step.
struct StepNote {
  static constexpr const char* kAbout = "step";
  std::vector<SampleSums> shards;  ///< the worker's logical shards, in order
  double learning_rate = 0;
  StepTimes times;
  std::vector<double> layer_wait_ms;  ///< by layer of the plan
  comm::ByScheme<int64_t> bytes;      ///< payload sent plus received since the last StepNote
  void describe(Fields& fields);
};

/// Worker to coordinator, after a test: sums over the samples that the worker has tested, by its
/// logical shards.
struct TestNote {
  static constexpr const char* kAbout = "test";
  TestSums sums;
  void describe(Fields& fields);
};

/// Member to coordinator, when the member ends: payload bytes that it has sent and received, and
/// the blocks of rounded gradients, by layer of the plan.
struct TrafficNote {
  static constexpr const char* kAbout = "traffic";
  std::vector<comm::LayerBytes> layers;
  void describe(Fields& fields);
};

/// Member to coordinator, when the member ends, with --trace: spans of one of its threads. A thread
/// with many spans has several notes.
struct TraceNote {
  static constexpr const char* kAbout = "trace";
  /// Numbers of a span: index of the label, TraceRecorder::Span::part, step, begin (ns after
  /// `origin_ns`), duration (ns), time in a queue (ns).
  static constexpr size_t kNumbersOfSpan = 6;
  struct Label {
    std::string track, category, name;
  };
  std::vector<Label> labels;
  int64_t origin_ns = 0;
  std::vector<int64_t> spans;  ///< kNumbersOfSpan for each span
  void describe(Fields& fields);
};

/// Coordinator to member, with --trace: requests the time of the member's clock. The member sends
/// the note back immediately, with `there_ns`. The times are in ns, from TraceRecorder::now().
struct ClockNote {
  static constexpr const char* kAbout = "clock";
  int64_t asked_ns = 0, there_ns = 0;
  void describe(Fields& fields);
};

/// Coordinator to the worker that has sent the checkpoint of a step: the checkpoint is written, or
/// forwarded to the joiners that need its values.
struct WrittenNote {
  static constexpr const char* kAbout = "written";
  void describe(Fields&) {}
};

/// Worker to coordinator: the worker has sent all tensors of a checkpoint.
struct SentCheckpoint {
  static constexpr const char* kAbout = "checkpoint";
  int64_t number = 0;           ///< sequence number of the checkpoint, as in its frames
  int64_t in_flight = 0;        ///< number of steps whose sums the checkpoint contains
  std::vector<int64_t> digest;  ///< tensor_digests()

  void describe(Fields& fields);
};

template <class Content>
comm::Note write_note(Content content, int64_t step = 0) {
  return {.about = Content::kAbout, .step = step, .content = write_fields([&](Fields& fields) {
                                                    content.describe(fields);
                                                  })};
}

/// Parses the content of a note. Throws ConfigError if it does not match `Content`.
template <class Content>
Content read_note(const comm::Note& note) {
  Content content;
  read_fields(note.content, {text("a note of \"", note.about, "\""), ""},
              [&](Fields& fields) { content.describe(fields); });
  return content;
}

/// Calls `take` with the content of `note`, which must be of one of the types `Contents`. Throws
/// ConfigError for another kind of note.
template <class... Contents, class Take>
void dispatch(const comm::Note& note, const Take& take) {
  const bool taken =
      ((note.about == Contents::kAbout && (take(read_note<Contents>(note)), true)) || ...);
  if (!taken)
    throw ConfigError(text("a note of ", shown(note.about), ", which is not expected here"));
}

}  // namespace poseidon::trainer
