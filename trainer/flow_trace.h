#pragma once

#include <map>
#include <memory>
#include <string>

#include "comm/outlet.h"
#include "comm/plan.h"
#include "core/trace.h"

namespace poseidon::trainer {

/// What leaves a worker or server and what reaches it, as spans: one track for each peer and
/// direction. A span is the time in which a connection moved one chunk, or one factor; where an
/// urgent one overtakes, what it interrupts has several. All calls come from the I/O thread.
class FlowTrace final : public comm::Outlet {
 public:
  /// Hands frames on to `outlet`. Both must outlive it, and it must outlive the transport.
  FlowTrace(const comm::Plan& plan, comm::Outlet& outlet) : plan_(plan), outlet_(outlet) {}

  void send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
            comm::Priority priority) override;
  /// The header of a bulk frame has come, and its body is on its way.
  void announced(comm::NodeId from) { announced_ns_[from] = TraceRecorder::now(); }
  /// The body is there.
  void arrived(comm::NodeId from, const comm::FrameHeader& header);
  /// Of a server: does so, and records it as the time in which what came was added.
  template <class Action>
  void add(const comm::FrameHeader& header, Action action) {
    const TraceScope scope(&recorder_, adding(header));
    action();
  }

  /// With all spans that have ended.
  TraceRecorder& recorder();

 private:
  class InFlight;
  struct Connection {
    std::string track, category;
    std::map<uint64_t, TraceRecorder::Label> labels;  ///< by layer, and which factor
    TraceRecorder::Span last;                         ///< not recorded yet: it may go on
  };

  void left(comm::NodeId to, const comm::FrameHeader& header, int64_t handed_over_ns);
  void moved(Connection& connection, const comm::FrameHeader& header, int64_t since_ns);
  TraceRecorder::Label label_of(Connection& connection, const comm::FrameHeader& header);
  TraceRecorder::Label adding(const comm::FrameHeader& header);
  void record(TraceRecorder::Span& span);

  const comm::Plan& plan_;
  comm::Outlet& outlet_;
  TraceRecorder recorder_;
  std::map<comm::NodeId, Connection> sending_, receiving_;
  std::map<comm::NodeId, int64_t> announced_ns_;
};

}  // namespace poseidon::trainer
