#include "comm/exchange/chunk_sum.h"

#include "comm/plan/chunks.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

/// Whether a chunk is one piece that needs no encoding. Such a chunk is sent from the tensor's
/// memory, and received into it, without a copy.
bool is_direct(const Plan& plan, const Chunk& chunk) {
  return chunk.pieces.size() == 1 && contribution_codec(plan, chunk).copies() &&
         sum_codec(plan, chunk).copies();
}

uint64_t elements_of(const Chunk& chunk) { return static_cast<uint64_t>(chunk.elements()); }

/// The elements of a tensor that a piece covers.
template <class Value>
std::span<Value> elements_of(std::span<Value> tensor, const Piece& piece) {
  return tensor.subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.count));
}

}  // namespace

uint64_t staging_bytes(const Plan& plan, size_t parts) {
  uint64_t bytes = 0;
  for (const Chunk& chunk : plan.chunks) {
    if (is_direct(plan, chunk)) continue;
    bytes += parts * contribution_codec(plan, chunk).bytes(elements_of(chunk)) +
             sum_codec(plan, chunk).bytes(elements_of(chunk));
  }
  return bytes * steps_in_flight(plan);
}

ChunkSum::ChunkSum(ExchangeContext& context, uint32_t index)
    : step_(context.options.first_step),
      sent_(context.options.first_step),
      context_(context),
      chunk_(context.plan.chunks[index]),
      server_(chunk_.server),
      index_(index),
      contribution_(contribution_codec(context.plan, chunk_), elements_of(chunk_)),
      sum_(sum_codec(context.plan, chunk_), elements_of(chunk_)),
      direct_(is_direct(context.plan, chunk_)),
      counts_(!context.plan.assignment.shares_host(context.rank, server_)),
      owners_(chunk_.pieces.size()) {
  check(sum_.count() <= kMaxSlices, "a chunk has at most 64 slices");
  const size_t parts = context.parts.size();
  Step step{.pieces_due = std::vector<size_t>(parts, chunk_.pieces.size())};
  if (!direct_ && carries_payload()) {
    step.staged.resize(parts, std::vector<std::byte>(contribution_.bytes()));
    step.sum.resize(sum_.bytes());
  }
  window_.assign(steps_in_flight(context.plan), step);
}

void ChunkSum::contribute(uint64_t step, size_t own, size_t piece, std::span<const float> tensor) {
  check(context_.in_flight(step, step_),
        "a worker contributes to a step only when the step's slot is free");
  Step& of_step = at(step);
  std::span<const float> mine;
  if (carries_payload()) mine = elements_of(tensor, chunk_.pieces[piece]);
  if (!direct_) stage(of_step, own, piece, mine);
  if (--of_step.pieces_due[own] > 0) return;
  of_step.pieces_due[own] = chunk_.pieces.size();
  if (!carries_payload())
    send(step, own, {});
  else
    send(step, own, direct_ ? std::as_bytes(mine) : of_step.staged[own]);
}

void ChunkSum::stage(Step& of_step, size_t own, size_t piece, std::span<const float> values) {
  if (!carries_payload()) return;
  std::byte* wire = of_step.staged[own].data();
  for (size_t p = 0; p < piece; ++p)
    wire += contribution_.codec().bytes(static_cast<uint64_t>(chunk_.pieces[p].count));
  contribution_.codec().encode(values, wire);
}

void ChunkSum::send(uint64_t step, size_t own, std::span<const std::byte> bytes) {
  if (size_t& parts = at(step).parts_sent; ++parts == context_.parts.size()) {
    parts = 0;
    sent_ = step + 1;
  }
  context_.send({Role::kServer, static_cast<uint16_t>(server_)},
                {.kind = FrameKind::kContribution,
                 .step = step,
                 .key = chunk_.key,
                 .chunk = index_,
                 .part = context_.parts[own]},
                {bytes, nullptr}, contribution_);
  count_bytes(contribution_.codec(), &LayerBytes::sent);
}

void ChunkSum::count_bytes(const Codec& codec, uint64_t LayerBytes::*direction) {
  if (!counts_) return;
  for (const Piece& piece : chunk_.pieces)
    context_.bytes_of_layer[piece.layer].*direction +=
        codec.bytes(static_cast<uint64_t>(piece.count));
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

void ChunkSum::received(const FrameHeader& header) {
  Step& of_step = at(header.step);
  of_step.received.add(EncodedSlices::index_of(header));
  if (!of_step.received.complete(sum_.count())) return;
  if (!direct_ && carries_payload()) unpack(header.step);
  // The sum of a later step may arrive first. It is reported only after the sums of the earlier
  // steps.
  while (at(step_).received.complete(sum_.count())) finish_step();
}

void ChunkSum::unpack(uint64_t step) {
  const std::byte* wire = at(step).sum.data();
  for (const Piece& piece : chunk_.pieces) {
    const std::span<float> sum =
        elements_of(context_.memory.sum(piece.layer, piece.tensor, step), piece);
    sum_.codec().decode(wire, sum);
    wire += sum_.codec().bytes(sum.size());
  }
}

void ChunkSum::finish_step() {
  const uint64_t step = step_++;
  at(step).received.clear();
  count_bytes(sum_.codec(), &LayerBytes::received);
  for (PieceOwner* owner : owners_) owner->piece_summed(step);
}

}  // namespace poseidon::comm
