#include "trainer/report/trace_file.h"

#include <algorithm>

#include "core/error.h"
#include "core/file.h"

namespace poseidon::trainer {

namespace {

constexpr size_t kSpansOfNote = 20000;  // spans of one note, about 1 MB of JSON
constexpr size_t kNumbersOfSpan = TraceNote::kNumbersOfSpan;
/// Limit on all spans and labels that one node sends. A node has at most two traced threads. It
/// sends their spans after its last step, and again if the job fails after that.
constexpr size_t kMaxTraceBytes = size_t{64} << 20;
constexpr size_t kClockSamples = 64;  // answers that ClockOffset stores: the most recent ones

double microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }

/// Ids of processes and tracks in the trace file, and the events that define their names.
class Names {
 public:
  int process(comm::NodeId node) {
    const auto [found, is_new] = processes_.try_emplace(node, 0);
    if (!is_new) return found->second;
    // Workers come before servers.
    found->second = node.rank + (node.role == comm::Role::kServer ? 100001 : 1);
    describe("process_name", found->second, 0, comm::name_of(node));
    events.push_back({{"ph", "M"},
                      {"name", "process_sort_index"},
                      {"pid", found->second},
                      {"tid", 0},
                      {"args", {{"sort_index", found->second}}}});
    return found->second;
  }

  int track(int process, const std::string& name) {
    auto& tracks = tracks_[process];
    const auto [found, is_new] = tracks.try_emplace(name, static_cast<int>(tracks.size()) + 1);
    if (is_new) describe("thread_name", process, found->second, name);
    return found->second;
  }

  Json events = Json::array();

 private:
  void describe(const char* what, int process, int track, const std::string& name) {
    events.push_back({{"ph", "M"},
                      {"name", what},
                      {"pid", process},
                      {"tid", track},
                      {"args", {{"name", name}}}});
  }

  std::map<comm::NodeId, int> processes_;
  std::map<int, std::map<std::string, int>> tracks_;
};

Json event_json(const TraceRecorder::LabelText& text, const TraceRecorder::Span& span, int process,
                int track) {
  Json args{{"step", span.step}};
  if (span.part != TraceRecorder::kWhole) {
    args["chunk"] = span.part;
    args["queued_us"] = microseconds(span.queued_ns);
  }
  return {{"ph", "X"},
          {"name", text.category + " " + text.name},
          {"cat", text.category},
          {"pid", process},
          {"tid", track},
          {"ts", microseconds(span.begin_ns)},
          {"dur", microseconds(span.end_ns - span.begin_ns)},
          {"args", std::move(args)}};
}

}  // namespace

std::vector<TraceNote> write_spans(const TraceRecorder& recorder) {
  int64_t last_step = 0;
  const std::vector<TraceRecorder::Span> all = recorder.spans(0);
  for (const auto& span : all) last_step = std::max(last_step, span.step);
  const std::vector<TraceRecorder::Span> spans = recorder.spans(last_step - kTraceSteps + 1);
  TraceNote empty;
  for (const auto& text : recorder.labels())
    empty.labels.push_back({text.track, text.category, text.name});
  std::vector<TraceNote> notes;
  for (size_t first = 0; first < spans.size(); first += kSpansOfNote) {
    TraceNote note = empty;
    note.origin_ns = spans[first].begin_ns;
    for (size_t i = first; i < std::min(first + kSpansOfNote, spans.size()); ++i) {
      const TraceRecorder::Span& span = spans[i];
      for (const int64_t number :
           {int64_t{span.label}, int64_t{span.part}, span.step, span.begin_ns - note.origin_ns,
            span.end_ns - span.begin_ns, span.queued_ns})
        note.spans.push_back(number);
    }
    notes.push_back(std::move(note));
  }
  return notes;
}

ClockNote clock_question() { return {.asked_ns = TraceRecorder::now()}; }

ClockNote clock_answer(ClockNote question) {
  question.there_ns = TraceRecorder::now();
  return question;
}

void ClockOffset::add(int64_t asked_ns, int64_t there_ns, int64_t answered_ns) {
  const int64_t round_trip_ns = answered_ns - asked_ns;
  samples_.push_back({round_trip_ns, there_ns - (asked_ns + round_trip_ns / 2)});
  if (samples_.size() > kClockSamples) samples_.pop_front();
}

int64_t ClockOffset::nanoseconds() const {
  return samples_.empty() ? 0 : std::ranges::min(samples_, {}, &Sample::round_trip_ns).offset_ns;
}

int64_t ClockOffset::uncertainty_ns() const {
  return samples_.empty()
             ? 0
             : std::ranges::min(samples_, {}, &Sample::round_trip_ns).round_trip_ns / 2;
}

void TraceCollection::add(comm::NodeId node, const TraceNote& note) {
  const auto refuse = [node](const std::string& what) {
    throw ConfigError(text(comm::name_of(node), " sent a trace ", what));
  };
  size_t& bytes = bytes_of_[node];
  bytes += note.spans.size() * sizeof(int64_t);
  for (const TraceNote::Label& label : note.labels)
    bytes += sizeof label + label.track.size() + label.category.size() + label.name.size();
  if (bytes > kMaxTraceBytes) refuse(text("of more than ", kMaxTraceBytes, " bytes"));
  if (note.spans.size() % kNumbersOfSpan != 0)
    refuse(text("with ", note.spans.size(), " numbers for spans, expected a multiple of ",
                kNumbersOfSpan));
  Thread thread{.node = node, .labels = {}, .spans = {}};
  for (const TraceNote::Label& label : note.labels)
    thread.labels.push_back({label.track, label.category, label.name});
  for (size_t i = 0; i < note.spans.size(); i += kNumbersOfSpan) {
    const std::span<const int64_t> numbers = std::span(note.spans).subspan(i, kNumbersOfSpan);
    if (numbers[0] < 0 || numbers[0] >= static_cast<int64_t>(thread.labels.size()))
      refuse("with an unknown label");
    if (numbers[1] < 0 || numbers[1] > TraceRecorder::kWhole) refuse("with an invalid chunk");
    const int64_t begin_ns = note.origin_ns + numbers[3];
    thread.spans.push_back({.label = static_cast<TraceRecorder::Label>(numbers[0]),
                            .part = static_cast<uint32_t>(numbers[1]),
                            .step = numbers[2],
                            .begin_ns = begin_ns,
                            .end_ns = begin_ns + numbers[4],
                            .queued_ns = numbers[5]});
  }
  threads_.push_back(std::move(thread));
}

void TraceCollection::answered(comm::NodeId node, const ClockNote& answer, int64_t answered_ns) {
  clocks_[node].add(answer.asked_ns, answer.there_ns, answered_ns);
}

std::vector<TraceCollection::Event> TraceCollection::common_events() const {
  // The recording of a thread may be split into several notes. A thread with many spans has
  // recorded fewer steps, so find the first step that all threads have.
  std::map<std::pair<comm::NodeId, std::string>, int64_t> first_step;
  for (const Thread& thread : threads_)
    for (const auto& span : thread.spans) {
      int64_t& step =
          first_step.try_emplace({thread.node, thread.labels[0].track}, span.step).first->second;
      step = std::min(step, span.step);
    }
  int64_t first = 0;
  for (const auto& [recording, step] : first_step) first = std::max(first, step);
  std::vector<Event> events;
  for (const Thread& thread : threads_) {
    const auto clock = clocks_.find(thread.node);
    const int64_t ahead_ns = clock == clocks_.end() ? 0 : clock->second.nanoseconds();
    for (TraceRecorder::Span span : thread.spans) {
      if (span.step < first) continue;
      span.begin_ns -= ahead_ns;
      span.end_ns -= ahead_ns;
      events.push_back({&thread.labels[span.label], thread.node, span});
    }
  }
  // Spans come before the spans that they enclose.
  std::ranges::stable_sort(events, {}, [](const Event& event) {
    return std::pair(event.span.begin_ns, -event.span.end_ns);
  });
  return events;
}

Json TraceCollection::events() const {
  const std::vector<Event> all = common_events();
  const int64_t start_ns = all.empty() ? 0 : all.front().span.begin_ns;
  Names names;
  Json spans = Json::array();
  for (Event event : all) {
    event.span.begin_ns -= start_ns;
    event.span.end_ns -= start_ns;
    const int process = names.process(event.node);
    spans.push_back(
        event_json(*event.text, event.span, process, names.track(process, event.text->track)));
  }
  Json clocks = Json::object();
  for (const auto& [node, clock] : clocks_)
    clocks[comm::name_of(node)] = {{"ahead_us", microseconds(clock.nanoseconds())},
                                   {"uncertainty_us", microseconds(clock.uncertainty_ns())}};
  Json out = std::move(names.events);
  for (Json& span : spans) out.push_back(std::move(span));
  return {{"displayTimeUnit", "ms"}, {"traceEvents", std::move(out)}, {"clocks", clocks}};
}

void write_trace(const TraceCollection& trace, const RunDirectory& directory, Log& log) {
  const std::filesystem::path file = directory.path() / kTraceFile;
  try {
    directory.check_lock();
    write_file(file, trace.events().dump());
    log.info(text("the trace of the last steps is in ", file.string(),
                  "; open it in https://ui.perfetto.dev or chrome://tracing"));
  } catch (const RunError& error) {
    log.warning(error.what());
  }
}

}  // namespace poseidon::trainer
