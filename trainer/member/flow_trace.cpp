#include "trainer/member/flow_trace.h"

#include <algorithm>
#include <string>
#include <vector>

#include "comm/exchange/worker_exchange.h"
#include "core/mutex.h"

namespace poseidon::trainer {

/// The recorded spans. Thread-safe: the release of a sent frame's payload records its span, and an
/// in-process peer releases the payload in the peer's thread.
class FlowTrace::Spans {
 public:
  explicit Spans(const comm::Plan& plan) {
    for (const auto& layer : plan.layers) layers_.push_back(layer.traffic.name);
  }

  void left(comm::NodeId to, const comm::FrameHeader& header, int64_t queued_ns) {
    MutexLock lock(mutex_);
    Connection& connection = sending_[to];
    if (connection.track.empty()) connection = {"to " + comm::name_of(to), "send", {}, {}};
    moved(connection, header, queued_ns);
  }
  void arrived(comm::NodeId from, const comm::FrameHeader& header, int64_t announced_ns) {
    MutexLock lock(mutex_);
    Connection& connection = receiving_[from];
    if (connection.track.empty()) connection = {"from " + comm::name_of(from), "receive", {}, {}};
    moved(connection, header, announced_ns);
  }
  void added(const comm::FrameHeader& header, int64_t begin_ns) {
    MutexLock lock(mutex_);
    recorder_.add({.label = recorder_.label({"adding", "sum", layers_[header.key]}),
                   .step = static_cast<int64_t>(header.step) + 1,
                   .begin_ns = begin_ns,
                   .end_ns = TraceRecorder::now()});
  }
  TraceRecorder ended() {
    MutexLock lock(mutex_);
    for (auto* connections : {&sending_, &receiving_})
      for (auto& [node, connection] : *connections) record(connection.last);
    return recorder_;
  }

 private:
  struct Connection {
    std::string track, category;
    std::map<uint64_t, TraceRecorder::Label> labels;  ///< by 2 * layer + kind of factor
    TraceRecorder::Span last;  ///< not recorded yet: the next frames may extend it
  };

  void moved(Connection& connection, const comm::FrameHeader& header, int64_t since_ns)
      REQUIRES(mutex_);
  TraceRecorder::Label label_of(Connection& connection, const comm::FrameHeader& header)
      REQUIRES(mutex_);
  void record(TraceRecorder::Span& span) REQUIRES(mutex_) {
    if (span.step > 0) recorder_.add(span);
    span.step = 0;
  }

  std::vector<std::string> layers_;  ///< names, by layer of the plan
  Mutex mutex_;
  TraceRecorder recorder_ GUARDED_BY(mutex_);
  std::map<comm::NodeId, Connection> sending_ GUARDED_BY(mutex_), receiving_ GUARDED_BY(mutex_);
};

/// Extends the connection's last span if the frame belongs to the same chunk or factor. Otherwise
/// records that span, and begins a new one at `since_ns`. A connection moves one frame at a time,
/// so the new span does not begin before the end of the last one.
void FlowTrace::Spans::moved(Connection& connection, const comm::FrameHeader& header,
                             int64_t since_ns) {
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

TraceRecorder::Label FlowTrace::Spans::label_of(Connection& connection,
                                                const comm::FrameHeader& header) {
  const bool is_factor = header.kind == comm::FrameKind::kFactor;
  const uint64_t thing = uint64_t{header.key} * 2 + (is_factor ? header.chunk : 0);
  const auto found = connection.labels.find(thing);
  if (found != connection.labels.end()) return found->second;
  std::string name = layers_[header.key];
  if (is_factor) name += header.chunk == comm::kDeltas ? " deltas" : " activations";
  return connection.labels[thing] = recorder_.label({connection.track, connection.category, name});
}

/// Owns a frame's payload until the transport releases it, and then records the frame. The
/// transport releases a payload after it has written the last byte to the socket, or after an
/// in-process peer has copied the payload.
class FlowTrace::InFlight {
 public:
  InFlight(std::shared_ptr<Spans> spans, comm::NodeId to, const comm::FrameHeader& header,
           std::shared_ptr<const void> owner)
      : spans_(std::move(spans)),
        to_(to),
        header_(header),
        owner_(std::move(owner)),
        queued_ns_(TraceRecorder::now()) {}
  ~InFlight() { spans_->left(to_, header_, queued_ns_); }
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  const std::shared_ptr<Spans> spans_;
  const comm::NodeId to_;
  const comm::FrameHeader header_;
  const std::shared_ptr<const void> owner_;
  const int64_t queued_ns_;
};

FlowTrace::FlowTrace(const comm::Plan& plan, comm::Outlet& outlet)
    : outlet_(outlet), spans_(std::make_shared<Spans>(plan)) {}

void FlowTrace::send(comm::NodeId to, const comm::FrameHeader& header, comm::Payload payload,
                     comm::Priority priority) {
  payload.owner = std::make_shared<InFlight>(spans_, to, header, std::move(payload.owner));
  outlet_.send(to, header, std::move(payload), priority);
}

void FlowTrace::arrived(comm::NodeId from, const comm::FrameHeader& header) {
  spans_->arrived(from, header, announced_ns_[from]);
}

void FlowTrace::added(const comm::FrameHeader& header, int64_t begin_ns) {
  spans_->added(header, begin_ns);
}

TraceRecorder FlowTrace::recorder() const { return spans_->ended(); }

}  // namespace poseidon::trainer
