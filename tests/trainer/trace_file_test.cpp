// Merges the spans of several threads into one trace: steps, clocks, nesting.

#include "trainer/report/trace_file.h"

#include <doctest/doctest.h>

#include <thread>

#include "core/error.h"
#include "trainer/member/flow_trace.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

constexpr comm::NodeId kWorker{comm::Role::kWorker, 0}, kServer{comm::Role::kServer, 1};

/// Spans for each step: a pass with a nested pass, on a clock that is ahead by `ahead_ns`.
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
  for (const TraceNote& note : write_spans(recorder)) trace.add(node, note);
}

std::vector<Json> spans_of(const Json& trace) {
  std::vector<Json> spans;
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "X") spans.push_back(event);
  return spans;
}

/// Keeps payloads until the test releases them, like a socket that is slow.
class SlowOutlet final : public comm::Outlet {
 public:
  void send(comm::NodeId, const comm::FrameHeader&, comm::Payload payload,
            comm::Priority) override {
    waiting.push_back(std::move(payload));
  }
  std::vector<comm::Payload> waiting;
};

}  // namespace

TEST_CASE("the clock offset of a host comes from the fastest request and its midpoint") {
  ClockOffset clock;
  CHECK(clock.nanoseconds() == 0);
  clock.add(1000, 5900, 2000);  // a slow exchange with asymmetric delays
  clock.add(3000, 7050, 3100);
  clock.add(4000, 8700, 4900);
  CHECK(clock.nanoseconds() == 4000);
  CHECK(clock.uncertainty_ns() == 50);
}

TEST_CASE("a member answers a clock request with the request and its time") {
  const ClockNote question = clock_question();
  const ClockNote answer = read_note<ClockNote>(write_note(clock_answer(question)));
  CHECK(answer.asked_ns == question.asked_ns);
  CHECK(answer.there_ns >= answer.asked_ns);
}

TEST_CASE("a trace has the last steps of all nodes on one clock, enclosing spans first") {
  constexpr int64_t kAhead = 7000000;
  TraceCollection trace;
  add_all(trace, kWorker, recorded(1, 50, 0));
  add_all(trace, kServer, recorded(45, 50, kAhead));
  trace.answered(kServer, {.asked_ns = 100, .there_ns = 150 + kAhead}, 200);
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

TEST_CASE("a long recording is sent as several notes, and only the last steps") {
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

TEST_CASE("a frame may end in another thread, also after its trace was destroyed") {
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

TEST_CASE("an invalid trace note is refused") {
  const TraceNote good = write_spans(recorded(1, 1, 0))[0];
  std::vector<TraceNote> bad(6, good);
  bad[0].labels.clear();
  bad[1].spans[0] = -1;
  bad[2].spans[0] = int64_t{1} << 32;
  bad[3].spans[1] = -1;
  bad[4].spans.pop_back();
  bad[5].labels[0].name.assign(size_t{65} << 20, 'x');
  for (const TraceNote& note : bad) {
    TraceCollection trace;
    CHECK_THROWS_AS(trace.add(kWorker, note), ConfigError);
  }
}

TEST_CASE("the trace of one node has a maximum size") {
  const TraceNote note = write_spans(recorded(1, 20, 0))[0];
  TraceCollection trace;
  CHECK_THROWS_AS(
      [&] {
        for (int i = 0; i < 1'000'000; ++i) trace.add(kWorker, note);
      }(),
      ConfigError);
}
