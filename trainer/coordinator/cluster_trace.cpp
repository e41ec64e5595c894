#include "trainer/coordinator/cluster_trace.h"

#include "core/error.h"
#include "trainer/coordinator/coordinator_io.h"

namespace poseidon::trainer {

namespace {

constexpr auto kBetweenQuestions = std::chrono::milliseconds(200);
constexpr int kQuestions = 4;

}  // namespace

void ClusterTrace::ask_for_time() {
  const auto now = Clock::now();
  if (!wanted_ || now - asked_ < kBetweenQuestions) return;
  asked_ = now;
  io_.post([](CoordinatorSide& io) {
    for (int i = 0; i < kQuestions; ++i) io.coordinator->note_members(write_note(clock_question()));
  });
}

void ClusterTrace::add(comm::NodeId node, const TraceNote& note) {
  if (!wanted_) throw ConfigError("a trace that was not requested");
  trace_.add(node, note);
}

void ClusterTrace::write(const RunDirectory& directory, Log& log) const {
  if (wanted_) write_trace(trace_, directory, log);
}

}  // namespace poseidon::trainer
