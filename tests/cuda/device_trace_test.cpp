// Times of a GPU's work in a trace, measured by the GPU's clock.

#include "trainer/step/device_trace.h"

#include <doctest/doctest.h>

#include "tests/support/gpu/emulated_gpu_backend.h"
#include "tests/trainer/made_training.h"
#include "tests/trainer/tiny_job.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

constexpr int kSteps = 3;

struct Told {
  TraceRecorder::LabelText text;
  TraceRecorder::Span span;
};

/// The spans of the track "device" after some steps of two shards each.
std::vector<Told> told_by(layers::Backend backend) {
  TraceRecorder trace;
  const TinyJob tiny;
  const Job job = tiny.load({"cluster.logical_shards=2"});
  Training training(std::move(backend), job, {.versions = 2}, -1, 0, &trace);
  for (int step = 0; step < kSteps; ++step) training.loop.step();
  training.loop.finish();
  training.loop.drain_for_checkpoint();
  std::vector<Told> told;
  for (const TraceRecorder::Span& span : trace.spans(1))
    if (trace.labels()[span.label].track == "device")
      told.push_back({trace.labels()[span.label], span});
  return told;
}

int64_t count(const std::vector<Told>& all, const std::string& what, const std::string& of) {
  return std::ranges::count_if(
      all, [&](const Told& told) { return told.text.category == what && told.text.name == of; });
}

}  // namespace

TEST_CASE("a GPU's trace has no gap between spans, and one span of each kind per layer and shard") {
  for (const uint64_t seed : {0, 7}) {
    const std::vector<Told> told = told_by(test::make_emulated_gpu_backend({.seed = seed}));
    REQUIRE(told.size() > 1);
    for (size_t i = 0; i < told.size(); ++i) {
      CHECK(told[i].span.begin_ns <= told[i].span.end_ns);
      if (i > 0) CHECK(told[i].span.begin_ns == told[i - 1].span.end_ns);
    }
    for (const char* layer : {"conv", "ip"})
      for (const char* what : {"wait", "forward", "backward"}) {
        CAPTURE(layer);
        CAPTURE(what);
        CHECK(count(told, what, layer) == kSteps * 2);
      }
    CHECK(count(told, "wait", "batch") == kSteps * 2);
    CHECK(told.back().span.step == kSteps);
  }
}

TEST_CASE("a device that runs work synchronously has no separate trace") {
  const TinyJob tiny;
  CHECK(told_by(make_backend(tiny.load())).empty());
}
