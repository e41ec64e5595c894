#include "trainer/member/worker_payload.h"

#include "core/error.h"
#include "core/fields.h"

namespace poseidon::trainer {

void WorkerPayload::announce(const comm::Note& note) {
  if (values_ == nullptr || intake_)
    throw ConfigError("expected initial values once, after the plan");
  const std::vector<std::span<std::byte>> memory = values_->memory();
  std::vector<std::span<std::byte>> wanted(memory.size());
  for (const int64_t index : read_note<ValuesNote>(note).tensors) {
    if (static_cast<size_t>(index) >= memory.size())
      throw ConfigError(text("expected a tensor index below ", memory.size(), ", got ", index));
    wanted[static_cast<size_t>(index)] = memory[static_cast<size_t>(index)];
  }
  intake_.emplace(std::move(wanted));
  notify_when_complete();
}

void WorkerPayload::notify_when_complete() const {
  if (intake_->complete()) listener_.all_came();
}

void WorkerPayload::open(const comm::Plan& plan, ClusterExchange& exchange, bool trace,
                         uint32_t view, comm::Outlet& peers) {
  intake_.reset();
  values_.reset();
  plan_ = &plan;
  exchange_ = &exchange;
  reported_ = {};
  if (trace) trace_ = std::make_unique<FlowTrace>(plan, peers);
  exchange.open(view, trace_ ? static_cast<comm::Outlet&>(*trace_) : peers);
}

void WorkerPayload::close() {
  intake_.reset();
  values_.reset();
  trace_.reset();
  exchange_ = nullptr;
  plan_ = nullptr;
}

comm::Destination WorkerPayload::destination(comm::NodeId from, const comm::FrameHeader& header) {
  if (from.role == comm::Role::kCoordinator)
    return intake_ ? intake_->destination(header)
                   : comm::Destination::refused("sent a tensor that was not requested");
  if (exchange_ == nullptr)
    return comm::Destination::refused("sent a payload before the job began");
  comm::Destination destination = exchange_->exchange().destination(from, header);
  if (trace_ && destination.accepted) trace_->announced(from);
  return destination;
}

std::string WorkerPayload::received(comm::NodeId from, const comm::FrameHeader& header) {
  if (from.role == comm::Role::kCoordinator) {
    if (!intake_->received() || !intake_->has(header.key)) return "";
    listener_.tensor_came(header.key);
    notify_when_complete();
    return "";
  }
  if (trace_) trace_->arrived(from, header);
  return exchange_->exchange().received(from, header);
}

std::string WorkerPayload::awaiting(comm::NodeId node) const {
  return exchange_ == nullptr ? "" : exchange_->awaiting(node);
}

SchemeBytes WorkerPayload::newly_moved() {
  if (!is_open()) return {};
  const SchemeBytes all = bytes_by_scheme(*plan_, moved());
  SchemeBytes since;
  for (const comm::Scheme scheme : comm::kSendingSchemes)
    since[scheme] = all[scheme] - reported_[scheme];
  reported_ = all;
  return since;
}

}  // namespace poseidon::trainer
