// From spans of several threads to one trace: steps, clocks, nesting.

#include "trainer/trace_file.h"

#include <doctest/doctest.h>

#include <thread>

#include "core/error.h"
#include "trainer/flow_trace.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

constexpr comm::NodeId kWorker{comm::Role::kWorker, 0}, kServer{comm::Role::kServer, 1};

/// Steps of a pass that contains another one, on a clock that is `ahead_ns` ahead.
TraceRecorder recorded(int64_t first_step, int64_t last_step, int64_t ahead_ns) {
  TraceRecorder recorder;
  const auto outer = recorder.label({"compute", "backward", "fc"});
  const auto inner = recorder.label({"compute", "rebuild", "fc"});
  for (int64_t step = first_step; step <= last_step; ++step) {
    const int64_t begin_ns = ahead_ns + 1000 * step;
    recorder.add(
        {.label = inner, .step = step, .begin_ns = begin_ns + 100, .end_ns = begin_ns + 200});
    recorder.add({.label = outer, .step = step, .begin_ns = begin_ns, .end_ns = begin_ns + 300});
  }
  return recorder;
}

void add_all(TraceCollection& trace, comm::NodeId node, const TraceRecorder& recorder) {
  for (const Json& content : write_spans(recorder)) trace.add(node, content);
}

std::vector<Json> spans_of(const Json& trace) {
  std::vector<Json> spans;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X") spans.push_back(event);
  return spans;
}

/// Gives frames back only when it is told to, as a socket does.
class SlowOutlet final : public comm::Outlet {
 public:
  void send(comm::NodeId, const comm::FrameHeader&, comm::Payload payload,
            comm::Priority) override {
    waiting.push_back(std::move(payload));
  }
  std::vector<comm::Payload> waiting;
};

}  // namespace

TEST_CASE("the clock of another host is placed between question and answer, by the fastest") {
  ClockOffset clock;
  CHECK(clock.nanoseconds() == 0);
  clock.add(1000, 5900, 2000);  // slow, and lopsided
  clock.add(3000, 7050, 3100);
  clock.add(4000, 8700, 4900);
  CHECK(clock.nanoseconds() == 4000);
  CHECK(clock.uncertainty_ns() == 50);
}

TEST_CASE("a member answers with the question and its time") {
  const comm::Note question = clock_question();
  const comm::Note answer = clock_answer(question);
  CHECK(answer.about == question.about);
  CHECK(answer.content["asked_ns"] == question.content["asked_ns"]);
  CHECK(answer.content["there_ns"].get<int64_t>() >= answer.content["asked_ns"].get<int64_t>());
}

TEST_CASE("a trace holds the last steps that all have, on one clock, what contains others first") {
  constexpr int64_t kAhead = 7000000;
  TraceCollection trace;
  add_all(trace, kWorker, recorded(1, 50, 0));
  add_all(trace, kServer, recorded(45, 50, kAhead));
  comm::Note answer{.about = "clock", .step = 0, .content = {{"asked_ns", 100}}};
  answer.content["there_ns"] = 150 + kAhead;
  trace.answered(kServer, answer, 200);
  const Json events = trace.events();
  const std::vector<Json> spans = spans_of(events);
  REQUIRE(spans.size() == 2 * 2 * 6);
  double before = 0;
  for (const Json& span : spans) {
    CHECK(span["ts"].get<double>() >= before);
    before = span["ts"];
    const auto step = span["args"]["step"].get<double>();
    CHECK(step >= 45);
    const bool contains = span["name"] == "backward fc";
    CHECK(span["ts"].get<double>() == doctest::Approx(step - 45 + (contains ? 0 : 0.1)));
    CHECK(span["dur"].get<double>() == doctest::Approx(contains ? 0.3 : 0.1));
  }
  CHECK(spans[0]["name"] == "backward fc");
  CHECK(events["clocks"]["server 1"]["ahead_us"] == 7000);
  std::vector<std::string> processes;
  for (const Json& event : events["traceEvents"])
    if (event["name"] == "process_name") processes.push_back(event["args"]["name"]);
  CHECK(processes == std::vector<std::string>{"worker 0", "server 1"});
}

TEST_CASE("long recordings come in several notes, and only their last steps") {
  CHECK(spans_of([] {
          TraceCollection trace;
          add_all(trace, kWorker, recorded(1, 1000, 0));
          return trace.events();
        }())
            .size() == 2 * kTraceSteps);
  TraceRecorder many;
  const auto label = many.label({"compute", "forward", "conv"});
  for (int i = 0; i < 50000; ++i)
    many.add({.label = label, .step = 1, .begin_ns = i, .end_ns = i + 1});
  CHECK(write_spans(many).size() == 3);
}

TEST_CASE("a frame may end in another thread, also when its trace has gone") {
  comm::Plan plan;
  plan.layers.resize(1);
  plan.layers[0].traffic.name = "conv";
  SlowOutlet outlet;
  auto trace = std::make_unique<FlowTrace>(plan, outlet);
  constexpr uint32_t kFrames = 1000;
  const auto frame = [](uint32_t chunk) {
    return comm::FrameHeader{.kind = comm::FrameKind::kContribution, .step = 4, .chunk = chunk};
  };
  for (uint32_t chunk = 0; chunk < kFrames; ++chunk) trace->send(kServer, frame(chunk), {}, 1);
  std::jthread neighbour([&] { outlet.waiting.clear(); });
  for (uint32_t chunk = 0; chunk < kFrames; ++chunk) trace->arrived(kServer, frame(chunk));
  CHECK(trace->recorder().spans(0).size() >= kFrames);
  trace.reset();
}

TEST_CASE("a trace with labels that it does not name is refused") {
  Json content = write_spans(recorded(1, 1, 0))[0];
  content["labels"] = Json::array();
  TraceCollection trace;
  CHECK_THROWS_AS(trace.add(kWorker, content), ConfigError);
}

TEST_CASE("a connection's spans follow one another, one for each run of slices of a chunk") {
  comm::Plan plan;
  plan.layers.resize(2);
  plan.layers[0].traffic.name = "conv";
  plan.layers[1].traffic.name = "fc";
  SlowOutlet outlet;
  FlowTrace trace(plan, outlet);
  const auto slice = [](uint32_t key, uint32_t chunk, uint64_t offset) {
    return comm::FrameHeader{.kind = comm::FrameKind::kContribution,
                             .step = 4,
                             .key = key,
                             .chunk = chunk,
                             .offset = offset};
  };
  // Two slices of chunk 3 around one of chunk 1, that overtakes: as three spans.
  for (const comm::FrameHeader& header : {slice(1, 3, 0), slice(0, 1, 0), slice(1, 3, 9)})
    trace.send(kServer, header, {}, 1);
  for (comm::Payload& payload : outlet.waiting) payload.owner.reset();
  trace.announced(kServer);
  trace.arrived(kServer, slice(0, 1, 0));
  trace.arrived(kServer, slice(0, 1, 9));
  const auto& recorder = trace.recorder();
  std::vector<std::string> names;
  int64_t sent_until_ns = 0;
  for (const auto& span : recorder.spans(0)) {
    const TraceRecorder::Words& words = recorder.labels()[span.label];
    names.push_back(words.track + ": " + words.category + " " + words.name);
    CHECK(span.step == 5);
    CHECK(span.begin_ns <= span.end_ns);
    if (words.category != "send") continue;
    CHECK(span.begin_ns >= sent_until_ns);
    CHECK(span.queued_ns >= 0);
    sent_until_ns = span.end_ns;
  }
  CHECK(names == std::vector<std::string>{"to server 1: send fc", "to server 1: send conv",
                                          "to server 1: send fc", "from server 1: receive conv"});
}
