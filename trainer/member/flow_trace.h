#pragma once

#include <map>
#include <memory>

#include "comm/plan/plan.h"
#include "comm/wire/outlet.h"
#include "core/trace.h"

namespace poseidon::trainer {

/// What leaves a worker or server and what reaches it, as spans: one track for each peer and
/// direction. A span is the time in which a connection moved one chunk, or one factor; where an
/// urgent one overtakes, what it interrupts has several. All calls come from the I/O thread; frames
/// under way may outlive it, and end in any thread.
class FlowTrace final : public comm::Outlet {
 public:
  /// Hands frames on to `outlet`, which must outlive it.
  FlowTrace(const comm::Plan& plan, comm::Outlet& outlet);

  void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
            comm::Priority priority) override;
  /// The header of a bulk frame has come, and its body is on its way.
  void announced(comm::NodeId from) { announced_ns_[from] = TraceRecorder::now(); }
  /// The body is there.
  void arrived(comm::NodeId from, const comm::FrameHeader& header);
  /// Of a server: does so, and records it as the time in which what came was added.
  template <class Action>
  void add(const comm::FrameHeader& header, Action action) {
    const int64_t begin_ns = TraceRecorder::now();
    action();
    added(header, begin_ns);
  }

  /// A copy, with all spans that have ended.
  TraceRecorder recorder() const;

 private:
  class Spans;
  class InFlight;

  void added(const comm::FrameHeader& header, int64_t begin_ns);

  comm::Outlet& outlet_;
  const std::shared_ptr<Spans> spans_;
  std::map<comm::NodeId, int64_t> announced_ns_;
};

}  // namespace poseidon::trainer
