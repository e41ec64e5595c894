#include "core/trace.h"

#include <doctest/doctest.h>

using namespace poseidon;

namespace {

TraceRecorder::Span span_of(int64_t step) {
  return {.step = step, .begin_ns = 10 * step, .end_ns = 10 * step + 5};
}

}  // namespace

TEST_CASE("trace: equal labels have the same id") {
  TraceRecorder trace;
  const auto forward = trace.label({"compute", "forward", "conv1"});
  CHECK(trace.label({"compute", "backward", "conv1"}) != forward);
  CHECK(trace.label({"compute", "forward", "conv1"}) == forward);
  REQUIRE(trace.labels().size() == 2);
  CHECK(trace.labels()[forward].name == "conv1");
}

TEST_CASE("trace: a scope records a span in the current step") {
  TraceRecorder trace;
  trace.set_step(7);
  const int64_t before = TraceRecorder::now();
  { const TraceScope scope(&trace, trace.label({"compute", "forward", "conv1"})); }
  { const TraceScope nothing(nullptr, 0); }
  const auto spans = trace.spans(0);
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].step == 7);
  CHECK(before <= spans[0].begin_ns);
  CHECK(spans[0].begin_ns <= spans[0].end_ns);
  CHECK(spans[0].end_ns <= TraceRecorder::now());
}

TEST_CASE("trace: a full ring keeps the newest spans, and drops incomplete steps") {
  TraceRecorder trace(4);
  for (int64_t step : {1, 2, 2, 3, 3, 4}) trace.add(span_of(step));
  std::vector<int64_t> steps;
  for (const auto& span : trace.spans(0)) steps.push_back(span.step);
  CHECK(steps == std::vector<int64_t>{3, 3, 4});
  CHECK(trace.spans(4).size() == 1);
}
