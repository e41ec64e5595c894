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

/// What the coordinator and the members of a job tell each other beyond comm's own messages: one
/// struct for the content of each note. docs/wire-format.md tells when each is sent.
namespace poseidon::trainer {

/// Worker to coordinator, before the plan is made: what its layers take.
struct TimesNote : LayerTimes {
  static constexpr const char* kAbout = "times";
};

/// Worker to coordinator, after the worker has made its net: the tensors of a checkpoint, the
/// choices and implementations of the layers, and the number of threads.
struct TensorsNote {
  static constexpr const char* kAbout = "tensors";
  Json list = Json::object();  ///< as tensor_list() makes it
  Json choices = Json::object();
  Json implementations = Json::object();  ///< as implementations_json() makes it
  int64_t threads = 1;
  void describe(Fields& fields);
};

/// Worker to coordinator, before it is prepared: it keeps this step of the run, and could send it.
struct KeptNote {
  static constexpr const char* kAbout = "kept";
  std::string run;   ///< RunDirectory::id()
  int64_t rank = 0;  ///< of the worker in that run's last view
  RunState state;
  Json list = Json::object();  ///< as tensor_list() makes it
  void describe(Fields& fields);
};

/// Worker to coordinator, after KeptNote: it has sent this report of that run's last steps to a
/// coordinator which may not have recorded it.
struct KeptReportNote {
  static constexpr const char* kAbout = "kept_report";
  std::string report;  ///< the message: a note of StepNote or TestNote
  void describe(Fields& fields);
};

/// Coordinator to worker, now and then: the steps up to that of the note are recorded, and the
/// tests before it.
struct RecordedNote {
  static constexpr const char* kAbout = "recorded";
  void describe(Fields&) {}
};

/// Coordinator to the worker that keeps a step: send it, as a checkpoint is sent.
struct FetchNote {
  static constexpr const char* kAbout = "fetch";
  void describe(Fields&) {}
};

/// Coordinator to worker, after the plan: these tensors of its list come, and it makes the others
/// from the seed.
struct ValuesNote {
  static constexpr const char* kAbout = "values";
  std::vector<int64_t> tensors;
  void describe(Fields& fields);
};

/// Worker 0 to coordinator, when its net is made: names of the classes, in order of their labels.
struct ClassesNote {
  static constexpr const char* kAbout = "classes";
  std::vector<std::string> classes;
  void describe(Fields& fields);
};

/// Worker to coordinator, after each step.
struct StepNote {
  static constexpr const char* kAbout = "step";
  std::vector<SampleSums> shards;  ///< its own, in order
  double learning_rate = 0;
  StepTimes times;
  std::vector<double> layer_wait_ms;  ///< by layer of the plan
  comm::ByScheme<int64_t> bytes;      ///< moved since its last note
  void describe(Fields& fields);
};

/// Worker to coordinator, after a test: sums over the samples that it tested, by its logical
/// shards.
struct TestNote {
  static constexpr const char* kAbout = "test";
  TestSums sums;
  void describe(Fields& fields);
};

/// Member to coordinator, at its end: bytes by layer of the plan.
struct TrafficNote {
  static constexpr const char* kAbout = "traffic";
  std::vector<comm::LayerBytes> layers;
  void describe(Fields& fields);
};

/// Member to coordinator, at its end, with --trace: spans of one of its threads.
struct TraceNote {
  static constexpr const char* kAbout = "trace";
  /// Of a span: label, part, step, begin (after `origin_ns`), duration, time in a queue; ns.
  static constexpr size_t kNumbersOfSpan = 6;
  struct Label {
    std::string track, category, name;
  };
  std::vector<Label> labels;
  int64_t origin_ns = 0;
  std::vector<int64_t> spans;  ///< kNumbersOfSpan of each
  void describe(Fields& fields);
};

/// Coordinator to member and back at once, with --trace: what time is it?
struct ClockNote {
  static constexpr const char* kAbout = "clock";
  int64_t asked_ns = 0, there_ns = 0;
  void describe(Fields& fields);
};

/// Coordinator to the worker that has sent the checkpoint of a step: it is written.
struct WrittenNote {
  static constexpr const char* kAbout = "written";
  void describe(Fields&) {}
};

/// Worker to coordinator, when it has sent a checkpoint.
struct SentCheckpoint {
  static constexpr const char* kAbout = "checkpoint";
  int64_t number = 0;           ///< by which it counts its checkpoints, as their frames do
  int64_t in_flight = 0;        ///< of how many steps it carries sums
  std::vector<int64_t> digest;  ///< tensor_digests()

  void describe(Fields& fields);
};

template <class Content>
comm::Note write_note(Content content, int64_t step = 0) {
  return {.about = Content::kAbout, .step = step, .content = write_fields([&](Fields& fields) {
                                                    content.describe(fields);
                                                  })};
}

/// Throws ConfigError for content that is not as described.
template <class Content>
Content read_note(const comm::Note& note) {
  Content content;
  read_fields(note.content, {text("a note of \"", note.about, "\""), ""},
              [&](Fields& fields) { content.describe(fields); });
  return content;
}

/// Gives `take` the content of a note of one of these kinds. Throws ConfigError for another kind.
template <class... Contents, class Take>
void dispatch(const comm::Note& note, const Take& take) {
  const bool taken =
      ((note.about == Contents::kAbout && (take(read_note<Contents>(note)), true)) || ...);
  if (!taken) throw ConfigError(text("a note of ", shown(note.about), ", which is not due here"));
}

}  // namespace poseidon::trainer
