#include "comm/exchange/chunk_sum.h"

#include <utility>

#include "comm/plan/chunks.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

uint64_t elements_of(const Chunk& chunk) { return static_cast<uint64_t>(chunk.elements()); }

}  // namespace

uint64_t staging_bytes(const Plan& plan, std::span<const Part> parts) {
  uint64_t bytes = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (is_direct(plan, chunk)) continue;
    bytes += sum_codec(plan, chunk).bytes(elements_of(chunk));
    for (const Part& part : parts)
      bytes += contribution_codec(plan, chunk, part).bytes(elements_of(chunk));
  }
  for (const LayerPlan& layer : plan.layers)
    if (layer.scheme == Scheme::kLocal)
      for (const TensorTraffic& tensor : layer.traffic.tensors)
        if (rounds_shards(plan.wire, tensor))
          bytes += contribution_codec(plan.wire, tensor, plan.assignment.all_shards())
                       .bytes(static_cast<uint64_t>(tensor.elements));
  return bytes * steps_in_flight(plan);
}

ChunkSum::ChunkSum(ExchangeContext& context, uint32_t index)
    : step_(context.options.first_step),
      sent_(context.options.first_step),
      context_(context),
      chunk_(context.plan.chunks[index]),
      server_(chunk_.server),
      index_(index),
      sum_(sum_codec(context.plan, chunk_), elements_of(chunk_)),
      direct_(is_direct(context.plan, chunk_)),
      counts_(!context.plan.assignment.shares_host(context.rank, server_)),
      owners_(chunk_.pieces.size()) {
  check(sum_.count() <= kMaxSlices, "a chunk has at most 64 slices");
  if (carries_payload()) stage_ = make_contribution_stage(context, chunk_);
  Step step;
  for (size_t own = 0; own < context.parts.size(); ++own) step.due.push_back(contributions_to(own));
  if (!direct_ && carries_payload()) step.sum.resize(sum_.bytes());
  window_.assign(steps_in_flight(context.plan), step);
}

size_t ChunkSum::contributions_to(size_t own) const {
  const size_t of_piece = rounds_shards(context_.plan, chunk_) ? context_.parts[own].count : 1;
  return chunk_.pieces.size() * of_piece;
}

void ChunkSum::contribute(size_t own, size_t piece, const Contribution& contribution) {
  check(context_.in_flight(contribution.step, step_),
        "a worker contributes to a step only when the step's slot is free");
  if (stage_ != nullptr) stage_->add(own, piece, contribution);
  size_t& due = at(contribution.step).due[own];
  if (--due > 0) return;
  due = contributions_to(own);
  send(contribution.step, own);
}

void ChunkSum::send(uint64_t step, size_t own) {
  if (size_t& parts = at(step).parts_sent; ++parts == context_.parts.size()) {
    parts = 0;
    sent_ = step + 1;
  }
  FrameHeader header{.kind = FrameKind::kContribution,
                     .step = step,
                     .key = chunk_.key,
                     .chunk = index_,
                     .part = context_.parts[own]};
  const EncodedSlices slices(contribution_codec(context_.plan, chunk_, header.part),
                             elements_of(chunk_));
  uint64_t bytes = 0;
  for (uint64_t slice = 0; slice < slices.count(); ++slice) {
    slices.place(slice, header);
    Payload payload;
    if (stage_ != nullptr) {
      payload = stage_->slice(own, header);
      header.length = payload.bytes.size();
    }
    bytes += header.length;
    context_.send_slice({Role::kServer, static_cast<uint16_t>(server_)}, header,
                        std::move(payload));
  }
  if (counts_)
    count_chunk(chunk_, slices.codec(), bytes, context_.bytes_of_layer, &LayerBytes::sent);
}

std::string ChunkSum::fault_of(NodeId from, const FrameHeader& header) const {
  if (from.role != Role::kServer || server_ != from.rank)
    return text("sent a sum of chunk ", index_, ", which another server sums");
  if (!sum_.has(header)) return sum_.fault_of(header, text("chunk ", index_));
  if (header.step >= step_ + window_.size())
    return text("sent the sum of step ", header.step, ", expected step ", step_);
  if (header.step >= sent_)
    return text("sent the sum of step ", header.step, " before this worker's contribution");
  return "";
}

Destination ChunkSum::destination(NodeId from, const FrameHeader& header) {
  std::string fault = fault_of(from, header);
  if (!fault.empty()) return Destination::refused(std::move(fault));
  if (header.step < step_ || at(header.step).received.has(EncodedSlices::index_of(header)))
    return context_.repeated();
  return Destination::into(carries_payload() ? memory_of(header) : std::span<std::byte>{});
}

std::span<std::byte> ChunkSum::memory_of(const FrameHeader& header) {
  const uint64_t before = sum_.bytes_before(header);
  if (!direct_) return std::span(at(header.step).sum).subspan(before, header.length);
  const Piece& piece = chunk_.pieces[0];
  const std::span<float> sum = context_.memory.sum(piece.layer, piece.tensor, header.step);
  return std::as_writable_bytes(elements_of(sum, piece)).subspan(before, header.length);
}

std::string ChunkSum::received(const FrameHeader& header) {
  Step& of_step = at(header.step);
  of_step.received.add(EncodedSlices::index_of(header));
  if (!of_step.received.complete(sum_.count())) return "";
  if (!direct_ && carries_payload() && !unpack(header.step))
    return text("sent a sum of \"", context_.plan.layers[chunk_.key].traffic.name,
                "\" that is not encoded as \"", name_of(context_.plan.wire), "\"");
  // The sum of a later step may arrive first. It is reported only after the sums of the earlier
  // steps.
  while (at(step_).received.complete(sum_.count())) finish_step();
  return "";
}

/// Decodes the sum of a step. Returns false if it is not validly encoded.
bool ChunkSum::unpack(uint64_t step) {
  if (!sum_.codec().is_valid(at(step).sum, elements_of(chunk_))) return false;
  const std::byte* wire = at(step).sum.data();
  for (const Piece& piece : chunk_.pieces) {
    const std::span<float> sum =
        elements_of(context_.memory.sum(piece.layer, piece.tensor, step), piece);
    sum_.codec().decode(wire, sum);
    wire += sum_.codec().bytes(sum.size());
  }
  return true;
}

void ChunkSum::finish_step() {
  const uint64_t step = step_++;
  at(step).received.clear();
  if (counts_)
    count_chunk(chunk_, sum_.codec(), sum_.bytes(), context_.bytes_of_layer, &LayerBytes::received);
  for (PieceOwner* owner : owners_) owner->piece_summed(step);
}

}  // namespace poseidon::comm
