#include "trainer/flow_trace.h"

#include <algorithm>

#include "comm/worker_exchange.h"

namespace poseidon::trainer {

/// Owns a frame's payload until the transport lets go of it: its last byte is then with the socket.
class FlowTrace::InFlight {
 public:
  InFlight(FlowTrace& trace, comm::NodeId to, const comm::FrameHeader& header,
           std::shared_ptr<const void> owner)
      : trace_(trace),
        to_(to),
        header_(header),
        owner_(std::move(owner)),
        handed_over_ns_(TraceRecorder::now()) {}
  ~InFlight() { trace_.left(to_, header_, handed_over_ns_); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  FlowTrace& trace_;
  const comm::NodeId to_;
  const comm::FrameHeader header_;
  const std::shared_ptr<const void> owner_;
  const int64_t handed_over_ns_;
};

void FlowTrace::send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
                     comm::Priority priority) {
  payload.owner = std::make_shared<InFlight>(*this, to, header, std::move(payload.owner));
  outlet_.send(to, header, std::move(payload), priority);
}

void FlowTrace::left(comm::NodeId to, const comm::FrameHeader& header, int64_t handed_over_ns) {
  Connection& connection = sending_[to];
  if (connection.track.empty()) connection = {"to " + comm::name_of(to), "send", {}, {}};
  moved(connection, header, handed_over_ns);
}

void FlowTrace::arrived(comm::NodeId from, const comm::FrameHeader& header) {
  Connection& connection = receiving_[from];
  if (connection.track.empty()) connection = {"from " + comm::name_of(from), "receive", {}, {}};
  moved(connection, header, announced_ns_[from]);
}

/// A connection moves one thing at a time: a span begins when the one before it has ended.
void FlowTrace::moved(Connection& connection, const comm::FrameHeader& header, int64_t since_ns) {
  const TraceRecorder::Label label = label_of(connection, header);
  const uint32_t part = header.kind == comm::FrameKind::kFactor ? header.part.first : header.chunk;
  const auto step = static_cast<int64_t>(header.step) + 1;
  TraceRecorder::Span& last = connection.last;
  if (last.step != step || last.label != label || last.part != part) {
    record(last);
    const int64_t begin_ns = std::max(since_ns, last.end_ns);
    last = {.label = label,
            .part = part,
            .step = step,
            .begin_ns = begin_ns,
            .end_ns = begin_ns,
            .queued_ns = begin_ns - since_ns};
  }
  last.end_ns = TraceRecorder::now();
}

TraceRecorder::Label FlowTrace::label_of(Connection& connection, const comm::FrameHeader& header) {
  const bool is_factor = header.kind == comm::FrameKind::kFactor;
  const uint64_t thing = uint64_t{header.key} * 2 + (is_factor ? header.chunk : 0);
  const auto found = connection.labels.find(thing);
  if (found != connection.labels.end()) return found->second;
  std::string name = plan_.layers[header.key].traffic.name;
  if (is_factor) name += header.chunk == comm::kDeltas ? " deltas" : " activations";
  return connection.labels[thing] = recorder_.label({connection.track, connection.category, name});
}

TraceRecorder::Label FlowTrace::adding(const comm::FrameHeader& header) {
  recorder_.set_step(static_cast<int64_t>(header.step) + 1);
  return recorder_.label({"adding", "sum", plan_.layers[header.key].traffic.name});
}

void FlowTrace::record(TraceRecorder::Span& span) {
  if (span.step > 0) recorder_.add(span);
  span.step = 0;
}

TraceRecorder& FlowTrace::recorder() {
  for (auto* connections : {&sending_, &receiving_})
    for (auto& [node, connection] : *connections) record(connection.last);
  return recorder_;
}

}  // namespace poseidon::trainer
