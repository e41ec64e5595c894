// Arbitrary bytes as notes of a member: each is accepted or refused, and memory use is bounded.

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.h"
#include "net/network.h"
#include "trainer/messages/notes.h"
#include "trainer/messages/step_message.h"
#include "trainer/plan/sync_plan.h"
#include "trainer/report/trace_file.h"
#include "trainer/state/tensor_check.h"

namespace {

using namespace poseidon;
using namespace poseidon::trainer;

constexpr comm::NodeId kWorker{comm::Role::kWorker, 1};

const net::Network& network() {
  static const net::Network kNetwork(
      parse_json(R"({"name": "tiny", "input": {"channels": 1, "height": 4, "width": 4},
        "layers": [{"name": "conv", "type": "convolution", "outputs": 2, "kernel": 3},
                   {"name": "bn", "type": "batch_norm"},
                   {"name": "ip", "type": "linear", "outputs": 3},
                   {"name": "loss", "type": "softmax_loss"}]})",
                 "tiny.json"),
      "tiny.json", 2);
  return kNetwork;
}

comm::PlanRequest request() {
  return {.layers = layer_traffic(network()),
          .workers = 2,
          .servers = 2,
          .global_batch = 4,
          .policy = comm::Policy::kTime,
          .link_mbps = 100,
          .times = {},
          .time_before = {}};
}

void take(int64_t, const TimesNote& note) {
  comm::PlanRequest asked = request();
  add_times(asked, note, "a worker's times");
  if (!(comm::make_plan(asked).predicted_step_ms >= 0)) __builtin_trap();
}

void take(int64_t, const TensorsNote& note) {
  OptimizerConfig optimizer;
  optimizer.type = "adam";
  check_tensors(note.list, network(), optimizer, 1);
}

void take(int64_t, const CheckpointOfferNote& note) {
  OptimizerConfig optimizer;
  check_tensors(note.list, network(), optimizer, note.state.in_flight);
}

void take(int64_t step, const StepNote& note) {
  comm::PlanRequest asked = request();
  asked.policy = comm::Policy::kBytes;
  const comm::Plan plan = comm::make_plan(asked);
  join_steps({worker_step(note, step, 0, plan), worker_step(note, step, 1, plan)}, plan);
}

void take(int64_t, const TraceNote& note) {
  TraceCollection trace;
  trace.add(kWorker, note);
  trace.answered(kWorker, {.asked_ns = 1, .there_ns = 2}, 3);
  trace.events();
}

void take(int64_t, const ClockNote& note) {
  TraceCollection trace;
  trace.answered(kWorker, note, note.asked_ns + 1);
  trace.events();
}

void take(int64_t, const ClassesNote&) {}
void take(int64_t, const TestNote&) {}
void take(int64_t, const TrafficNote&) {}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const comm::ControlMessage message(std::as_bytes(std::span(data, size)));
    if (!message.is<comm::Note>()) return 0;
    const auto note = message.as<comm::Note>();
    dispatch<TimesNote, CheckpointOfferNote, TensorsNote, ClassesNote, StepNote, TestNote,
             TrafficNote, TraceNote, ClockNote>(
        note, [&](const auto& content) { take(note.step, content); });
  } catch (const ConfigError&) {
    // Refused with a reason, as it should be.
  }
  return 0;
}
