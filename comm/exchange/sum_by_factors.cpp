#include "comm/exchange/sum_by_factors.h"

#include <algorithm>
#include <memory>

#include "comm/plan/chunks.h"
#include "comm/wire/mutation.h"
#include "comm/wire/sparse.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

std::vector<IndexRange> rows_of_shards(const Plan& plan) {
  std::vector<IndexRange> rows;
  for (uint32_t shard = 0; shard < plan.logical_shards(); ++shard)
    rows.push_back(plan.rows_of({shard, 1}));
  return rows;
}

/// The values of one sample.
uint64_t width_of(const LayerTraffic& traffic, uint32_t which) {
  const FactorSizes& sizes = *traffic.factors;
  return static_cast<uint64_t>(which == kDeltas ? sizes.deltas : sizes.activations);
}

uint64_t slices_of_step(const Plan& plan, uint32_t layer, const FactorBuffers& factor_buffers) {
  uint64_t slices = 0;
  for (const IndexRange& rows : factor_buffers.rows)
    for (const uint32_t which : {kDeltas, kActivations})
      slices += EncodedSlices(factor_buffers.codec, static_cast<uint64_t>(rows.count) *
                                                        width_of(plan.layers[layer].traffic, which))
                    .count();
  return slices;
}

/// `dense`, in its sparse form if that is shorter. All elements have the same number of bytes.
Payload shorter_form(Payload dense, uint64_t bytes_of_element) {
  const uint64_t length = sparse_bytes(dense.bytes, bytes_of_element);
  if (length >= dense.bytes.size() && !mutated(Mutation::kSparseAnyway)) return dense;
  const auto sparse = std::make_shared_for_overwrite<std::byte[]>(length);
  const std::span<std::byte> bytes(sparse.get(), length);
  encode_sparse(dense.bytes, bytes_of_element, bytes);
  return {.bytes = bytes, .owner = sparse};
}

/// The slices of a factor, each in its shorter form.
std::vector<Payload> shorter_forms(const Payload& dense, const EncodedSlices& slices) {
  std::vector<Payload> forms;
  FrameHeader header;
  for (uint64_t slice = 0; slice < slices.count(); ++slice) {
    slices.place(slice, header);
    forms.push_back(
        shorter_form({.bytes = dense.bytes.subspan(slices.bytes_before(header), header.length),
                      .owner = dense.owner},
                     slices.codec().bytes(1)));
  }
  return forms;
}

}  // namespace

FactorBuffers::FactorBuffers(const Plan& plan)
    : codec(factor_codec(plan.wire)),
      rows(rows_of_shards(plan)),
      wire(static_cast<size_t>(plan.workers())) {}

SumByFactors::SumByFactors(ExchangeContext& context, uint32_t layer, FactorBuffers& factor_buffers)
    : LayerSum(context, layer, steps_of_factors(context.plan),
               slices_of_step(context.plan, layer, factor_buffers)),
      factor_buffers_(factor_buffers) {
  uint64_t slices = 0;
  for (uint32_t shard = 0; shard < factor_buffers.rows.size(); ++shard)
    for (const uint32_t which : {kDeltas, kActivations}) {
      first_slice_.push_back(slices);
      slices += this->slices({which, shard}).count();
    }
  first_slice_.push_back(slices);
  received_slices_.assign(steps_of_factors(context.plan), std::vector<bool>(slices));
}

uint64_t SumByFactors::width(uint32_t which) const { return width_of(plan().traffic, which); }

EncodedSlices SumByFactors::slices(Rows rows) const {
  return {factor_buffers_.codec,
          static_cast<uint64_t>(factor_buffers_.rows[rows.shard].count) * width(rows.which)};
}

std::span<float> SumByFactors::values(uint64_t step, Rows rows) const {
  const uint64_t width_of_row = width(rows.which);
  const IndexRange& range = factor_buffers_.rows[rows.shard];
  return context()
      .memory.factors(layer(), rows.which, step)
      .subspan(static_cast<uint64_t>(range.first) * width_of_row,
               static_cast<uint64_t>(range.count) * width_of_row);
}

/// The elements of a frame's slice.
std::span<float> SumByFactors::values_of(const FrameHeader& header) const {
  const Rows rows{header.chunk, header.part.first};
  return values(header.step, rows).subspan(header.offset, slices(rows).elements_of(header));
}

void SumByFactors::contribute(const Contribution& contribution) {
  check(context().in_flight(contribution.step, step()),
        "factors are contributed once a step, in order");
  uint64_t slices = 0;
  for (const uint32_t which : {kDeltas, kActivations}) {
    const Rows rows{which, contribution.part.first};
    send(contribution.step, rows);
    slices += end_slice(rows) - first_slice(rows);
  }
  done(contribution.step, slices);
}

/// Encodes one factor of one shard. Returns its slices. The worker's own rows are rounded by the
/// codec as well, so that all workers use equal factors.
std::vector<Payload> SumByFactors::payloads_of(uint64_t step, Rows rows) const {
  const EncodedSlices all = slices(rows);
  if (!context().options.carries_payload) return std::vector<Payload>(all.count());
  const std::span<float> own = values(step, rows);
  const ValueCodec& codec = factor_buffers_.codec;
  if (codec.copies()) return shorter_forms({.bytes = std::as_bytes(own), .owner = nullptr}, all);
  const auto wire = std::make_shared<std::vector<std::byte>>(all.bytes());
  codec.encode(own, wire->data());
  codec.decode(wire->data(), own);
  return shorter_forms({.bytes = *wire, .owner = wire}, all);
}

void SumByFactors::send(uint64_t step, Rows rows) {
  const std::vector<Payload> payloads = payloads_of(step, rows);
  const EncodedSlices all = slices(rows);
  const Assignment& assignment = context().plan.assignment;
  FrameHeader header{.kind = FrameKind::kFactor,
                     .step = step,
                     .key = layer(),
                     .chunk = rows.which,
                     .part = {rows.shard, 1}};
  for (uint32_t worker = 0; worker < assignment.workers().size(); ++worker) {
    if (worker == context().rank) continue;
    uint64_t bytes = 0;
    for (uint64_t slice = 0; slice < payloads.size(); ++slice) {
      all.place(slice, header);
      if (const uint64_t length = payloads[slice].bytes.size(); length > 0) header.length = length;
      bytes += header.length;
      context().send_slice({Role::kWorker, static_cast<uint16_t>(worker)}, header, payloads[slice]);
    }
    if (!assignment.workers_share_host(context().rank, worker))
      context().bytes_of_layer[layer()].sent += bytes;
  }
}

std::string SumByFactors::fault_of(NodeId from, const FrameHeader& header) const {
  const Part part = header.part;
  if (from.role != Role::kWorker || part.count != 1 || part.first >= factor_buffers_.rows.size() ||
      context().plan.assignment.worker_of(part.first) != from.rank || from.rank == context().rank)
    return text("sent a factor of logical shard ", part.first, ", which is not assigned to it");
  const EncodedSlices expected = slices({header.chunk, part.first});
  if (!expected.has(header) && !expected.has_sparse(header))
    return expected.fault_of(header, text("a factor of logical shard ", part.first));
  if (header.step >= step() + received_slices_.size())
    return text("sent a factor of step ", header.step, ", expected step ", step());
  return "";
}

Destination SumByFactors::destination(NodeId from, const FrameHeader& header) {
  if (header.kind != FrameKind::kFactor || header.chunk > kActivations) return unwanted(header);
  std::string fault = fault_of(from, header);
  if (!fault.empty()) return Destination::refused(std::move(fault));
  const Rows rows{header.chunk, header.part.first};
  if (header.step < step() || received_slices(header.step)[slice_of(rows, header)])
    return context().repeated();
  if (!context().options.carries_payload) return Destination::into({});
  if (is_direct(header)) return Destination::into(std::as_writable_bytes(values_of(header)));
  factor_buffers_.wire[from.rank].resize(kSliceBytes);
  return Destination::into(std::span(factor_buffers_.wire[from.rank]).first(header.length));
}

bool SumByFactors::is_direct(const FrameHeader& header) const {
  const Codec& codec = factor_buffers_.codec;
  return codec.copies() && header.length == codec.bytes(values_of(header).size());
}

/// Decodes a received slice. Returns false if it is not a valid sparse form.
bool SumByFactors::unpack(NodeId from, const FrameHeader& header) {
  if (is_direct(header)) return true;
  const ValueCodec& codec = factor_buffers_.codec;
  const std::span<float> values = values_of(header);
  const std::span<const std::byte> wire =
      std::span(factor_buffers_.wire[from.rank]).first(header.length);
  const uint64_t bytes = codec.bytes(values.size());
  if (header.length == bytes) {
    codec.decode(wire.data(), values);
    return true;
  }
  if (!is_sparse(wire, values.size(), codec.bytes(1))) return false;
  if (codec.copies()) {
    decode_sparse(wire, codec.bytes(1), std::as_writable_bytes(values));
    return true;
  }
  factor_buffers_.dense.resize(kSliceBytes);
  decode_sparse(wire, codec.bytes(1), std::span(factor_buffers_.dense).first(bytes));
  codec.decode(factor_buffers_.dense.data(), values);
  return true;
}

std::string SumByFactors::received(NodeId from, const FrameHeader& header) {
  const Rows rows{header.chunk, header.part.first};
  if (context().options.carries_payload && !unpack(from, header))
    return text("sent a factor of \"", plan().traffic.name,
                "\" whose bitmap does not match its length of ", header.length, " bytes");
  received_slices(header.step)[slice_of(rows, header)] = true;
  if (!context().plan.assignment.workers_share_host(context().rank, from.rank))
    context().bytes_of_layer[layer()].received += header.length;
  done(header.step);
  return "";
}

void SumByFactors::make_room(uint64_t step) {
  std::vector<bool>& of_step = received_slices(step);
  std::fill(of_step.begin(), of_step.end(), false);
}

bool SumByFactors::lacks_some(uint32_t shard) const {
  const auto all = received_slices(step()).begin();
  const auto first = all + static_cast<int64_t>(first_slice({kDeltas, shard}));
  const auto end = all + static_cast<int64_t>(end_slice({kActivations, shard}));
  return std::find(first, end, false) != end;
}

std::string SumByFactors::awaiting(NodeId node) const {
  if (node.role != Role::kWorker) return "";
  for (uint32_t shard = 0; shard < factor_buffers_.rows.size(); ++shard)
    if (context().plan.assignment.worker_of(shard) == node.rank && lacks_some(shard))
      return text("the factors of \"", plan().traffic.name, "\" of step ", step() + 1, " from ",
                  name_of(node));
  return "";
}

}  // namespace poseidon::comm
