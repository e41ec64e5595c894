#pragma once

#include <map>
#include <memory>

#include "comm/plan/plan.h"
#include "comm/wire/outlet.h"
#include "core/trace.h"

namespace poseidon::trainer {

/// Records the frames that a worker or server sends and receives as spans, on one track for each
/// peer and direction. A span is the time in which a connection moved one chunk or one factor. If a
/// more urgent frame interrupts the transfer, the transfer has several spans. The I/O thread makes
/// all calls. Frames in flight may outlive this object. Any thread may release them.
class FlowTrace final : public comm::Outlet {
 public:
  /// Forwards frames to `outlet`. `outlet` must outlive this object.
  FlowTrace(const comm::Plan& plan, comm::Outlet& outlet);

  void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
            comm::Priority priority) override;
  /// Records the arrival of a bulk frame's header. The body follows.
  void announced(comm::NodeId from) { announced_ns_[from] = TraceRecorder::now(); }
  /// Records that the body of the frame has arrived.
  void arrived(comm::NodeId from, const comm::FrameHeader& header);
  /// For a server: calls `action`, which adds the received data, and records its time.
  template <class Action>
  void add(const comm::FrameHeader& header, Action action) {
    const int64_t begin_ns = TraceRecorder::now();
    action();
    added(header, begin_ns);
  }

  /// Returns a copy of all spans recorded so far.
  TraceRecorder recorder() const;

 private:
  class Spans;
  class InFlight;

  void added(const comm::FrameHeader& header, int64_t begin_ns);

  comm::Outlet& outlet_;
  const std::shared_ptr<Spans> spans_;
  std::map<comm::NodeId, int64_t> announced_ns_;  ///< by peer: arrival of the last header
};

}  // namespace poseidon::trainer
