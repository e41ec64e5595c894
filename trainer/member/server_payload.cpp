#include "trainer/member/server_payload.h"

#include <algorithm>

#include "trainer/messages/notes.h"
#include "trainer/report/trace_file.h"

namespace poseidon::trainer {

void ServerPayload::open(comm::Plan plan, uint32_t rank, const comm::ServerShard::Options& options,
                         bool trace, comm::Outlet& peers) {
  plan_ = std::move(plan);
  step_ = 0;
  if (trace) trace_ = std::make_unique<FlowTrace>(plan_, peers);
  shard_ = std::make_unique<comm::ServerShard>(
      plan_, rank, options, trace_ ? static_cast<comm::Outlet&>(*trace_) : peers);
}

void ServerPayload::close() {
  shard_.reset();
  trace_.reset();
}

comm::Destination ServerPayload::destination(comm::NodeId from, const comm::FrameHeader& header) {
  if (shard_ == nullptr || from.role != comm::Role::kWorker ||
      header.kind != comm::FrameKind::kContribution)
    return comm::Destination::refused("sent a " + comm::name_of(header.kind) +
                                      " frame, which the server does not expect now");
  comm::Destination destination = shard_->destination(from.rank, header);
  if (trace_ && destination.accepted) trace_->announced(from);
  return destination;
}

std::string ServerPayload::received(comm::NodeId from, const comm::FrameHeader& header) {
  step_ = std::max(step_, static_cast<int64_t>(header.step) + 1);
  if (!trace_) return shard_->received(from.rank, header);
  trace_->arrived(from, header);
  std::string fault;
  trace_->add(header, [&] { fault = shard_->received(from.rank, header); });
  return fault;
}

void ServerPayload::forgotten(comm::NodeId from) {
  if (shard_ != nullptr && from.role == comm::Role::kWorker) shard_->forget(from.rank);
}

std::string ServerPayload::awaiting(comm::NodeId node) const {
  return shard_ != nullptr && node.role == comm::Role::kWorker ? shard_->awaiting(node.rank) : "";
}

void ServerPayload::report(comm::CoordinatorLink& coordinator) const {
  if (trace_)
    for (const TraceNote& spans : write_spans(trace_->recorder()))
      coordinator.note(write_note(spans));
  if (shard_ != nullptr) coordinator.note(write_note(TrafficNote{shard_->bytes_of_layers()}));
}

}  // namespace poseidon::trainer
