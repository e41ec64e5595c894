#include "comm/exchange/worker_exchange.h"

#include "comm/plan/chunks.h"
#include "core/error.h"

namespace poseidon::comm {

namespace {

std::vector<IndexRange> rows_of_shards(const Plan& plan) {
  std::vector<IndexRange> rows;
  for (uint32_t shard = 0; shard < plan.logical_shards(); ++shard)
    rows.push_back(plan.rows_of({shard, 1}));
  return rows;
}

}  // namespace

WorkerExchange::WorkerExchange(const Plan& plan, uint32_t rank, const Options& options,
                               ExchangeMemory& memory, Outlet& outlet, Arrived arrived)
    : plan_(plan),
      rank_(rank),
      options_(options),
      memory_(memory),
      outlet_(outlet),
      arrived_(std::move(arrived)),
      number_(number_of_factors(plan)),
      parts_(plan.assignment.parts_of(rank)),
      rows_(rows_of_shards(plan)),
      wire_(static_cast<size_t>(plan.workers())),
      bytes_of_layer_(plan.layers.size()) {
  index_layers();
  index_chunks();
}

void WorkerExchange::index_layers() {
  for (uint32_t i = 0; i < plan_.layers.size(); ++i) {
    const LayerPlan& layer = plan_.layers[i];
    pieces_of_.emplace_back(layer.traffic.tensors.size());
    // Where there is one worker its tensors are sums as they come: pieces that go nowhere.
    layers_.push_back(
        {.step = options_.first_step,
         .pieces = layer.scheme == Scheme::kLocal ? layer.traffic.tensors.size() : 0,
         .by_factors = layer.scheme == Scheme::kSfb,
         .pieces_due = std::vector<size_t>(static_cast<size_t>(plan_.staleness + 1))});
    if (!layers_[i].by_factors) continue;
    layers_[i].factors.resize(steps_of_factors(plan_));
    for (FactorStep& factors : layers_[i].factors) begin_factors(i, factors);
  }
}

namespace {

/// One piece as it lies in memory.
bool is_direct(const Plan& plan, const Chunk& chunk) {
  return chunk.pieces.size() == 1 && number_of(plan, chunk) == WireNumber::kFp32;
}

}  // namespace

uint64_t WorkerExchange::staging_bytes(const Plan& plan, size_t parts) {
  uint64_t bytes = 0;
  for (const Chunk& chunk : plan.chunks)
    if (!is_direct(plan, chunk))
      bytes += static_cast<uint64_t>(chunk.elements()) * bytes_of(number_of(plan, chunk));
  return bytes * (parts + 1) * static_cast<uint64_t>(plan.staleness + 1);
}

void WorkerExchange::index_chunks() {
  for (uint32_t i = 0; i < plan_.chunks.size(); ++i) {
    const Chunk& chunk = plan_.chunks[i];
    const WireNumber number = number_of(plan_, chunk);
    ChunkState state{.number = number,
                     .bytes = static_cast<uint64_t>(chunk.elements()) * bytes_of(number),
                     .direct = is_direct(plan_, chunk),
                     .step = options_.first_step,
                     .sent = options_.first_step};
    state.slices = slices_of(state.bytes);
    check(state.slices <= kMostSlices, "a chunk has at most 64 slices");
    ChunkStep step{.pieces_due = std::vector<size_t>(parts_.size(), chunk.pieces.size())};
    if (!state.direct && options_.carries_payload) {
      step.staged.resize(parts_.size(), std::vector<std::byte>(state.bytes));
      step.sum.resize(state.bytes);
    }
    state.window.assign(static_cast<size_t>(plan_.staleness + 1), step);
    chunks_.push_back(std::move(state));
    for (uint32_t p = 0; p < chunk.pieces.size(); ++p) {
      const Piece& piece = chunk.pieces[p];
      pieces_of_[piece.layer][piece.tensor].push_back({i, p});
      ++layers_[piece.layer].pieces;
    }
  }
  for (LayerState& layer : layers_)
    std::fill(layer.pieces_due.begin(), layer.pieces_due.end(), layer.pieces);
}

// ---- sending

size_t WorkerExchange::own_index(Part part) const {
  for (size_t i = 0; i < parts_.size(); ++i)
    if (parts_[i] == part) return i;
  throw LogicError("a worker contributes its own parts only");
}

void WorkerExchange::contribute(uint64_t step, uint32_t layer, uint32_t tensor, Part part,
                                std::span<const float> values) {
  if (plan_.layers[layer].scheme == Scheme::kLocal) return finish_piece(layer, step);
  const size_t own = own_index(part);
  for (const PieceOf& place : pieces_of_[layer][tensor]) {
    ChunkState& state = chunks_[place.chunk];
    const Piece& piece = plan_.chunks[place.chunk].pieces[place.piece];
    check(in_flight(step, state.step), "a sum is awaited before the next one is contributed to");
    ChunkStep& of_step = state.at(step);
    std::span<const float> mine;
    if (options_.carries_payload)
      mine = values.subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.count));
    if (!state.direct) stage(of_step, own, place, mine);
    if (--of_step.pieces_due[own] > 0) continue;
    of_step.pieces_due[own] = plan_.chunks[place.chunk].pieces.size();
    if (!options_.carries_payload)
      send_chunk(step, place.chunk, own, {});
    else
      send_chunk(step, place.chunk, own, state.direct ? std::as_bytes(mine) : of_step.staged[own]);
  }
}

void WorkerExchange::stage(ChunkStep& state, size_t own, const PieceOf& place,
                           std::span<const float> values) {
  if (!options_.carries_payload) return;
  size_t before = 0;
  for (uint32_t p = 0; p < place.piece; ++p)
    before += static_cast<size_t>(plan_.chunks[place.chunk].pieces[p].count);
  const WireNumber number = chunks_[place.chunk].number;
  to_wire(number, values, state.staged[own].data() + before * bytes_of(number));
}

void WorkerExchange::send_chunk(uint64_t step, uint32_t index, size_t own,
                                std::span<const std::byte> bytes) {
  const Chunk& chunk = plan_.chunks[index];
  ChunkState& state = chunks_[index];
  if (size_t& parts = state.at(step).parts_sent; ++parts == parts_.size()) {
    parts = 0;
    state.sent = step + 1;
  }
  send_slices({Role::kServer, static_cast<uint16_t>(chunk.server)},
              {.kind = FrameKind::kContribution,
               .view = options_.view,
               .step = step,
               .key = chunk.key,
               .chunk = index,
               .part = parts_[own]},
              {bytes, nullptr}, state.bytes);
  if (plan_.assignment.shares_host(rank_, chunk.server)) return;
  for (const Piece& piece : chunk.pieces)
    bytes_of_layer_[piece.layer].sent +=
        static_cast<uint64_t>(piece.count) * bytes_of(state.number);
}

void WorkerExchange::send_slices(NodeId to, FrameHeader header, const Payload& whole,
                                 uint64_t bytes) {
  for (uint64_t slice = 0; slice < slices_of(bytes); ++slice) {
    header.offset = slice * kSliceBytes;
    header.length = slice_length(bytes, slice);
    Payload payload{.bytes = {}, .owner = whole.owner};
    if (!whole.bytes.empty()) payload.bytes = whole.bytes.subspan(header.offset, header.length);
    outlet_.send(to, header, std::move(payload), priority_of(header.key));
  }
  traffic_.bytes_sent += bytes;
}

Priority WorkerExchange::priority_of(uint32_t key) const {
  return bulk_priority(options_.first_in_first_out ? 0 : key);
}

uint64_t WorkerExchange::factor_width(uint32_t layer, uint32_t which) const {
  const comm::LayerTraffic& traffic = plan_.layers[layer].traffic;
  return static_cast<uint64_t>(which == kDeltas ? traffic.rows : traffic.columns);
}

uint64_t WorkerExchange::factor_bytes(uint32_t layer, uint32_t which, uint32_t shard) const {
  return static_cast<uint64_t>(rows_[shard].count) * factor_width(layer, which) * bytes_of(number_);
}

std::span<float> WorkerExchange::factor_rows(uint32_t layer, uint32_t which, uint32_t shard,
                                             uint64_t step) const {
  const uint64_t width = factor_width(layer, which);
  return memory_.factors(layer, which, step)
      .subspan(static_cast<uint64_t>(rows_[shard].first) * width,
               static_cast<uint64_t>(rows_[shard].count) * width);
}

void WorkerExchange::contribute_factors(uint64_t step, uint32_t layer, uint32_t shard) {
  LayerState& state = layers_[layer];
  check(state.by_factors && in_flight(step, state.step),
        "factors are contributed once a step, in order");
  FactorStep& factors = state.factors_of(step);
  for (uint32_t which : {kDeltas, kActivations}) {
    send_factor(step, layer, which, shard);
    factors.slices_due -= factors.slices[shard][which].size();
  }
  finish_if_complete(layer);
}

void WorkerExchange::send_factor(uint64_t step, uint32_t layer, uint32_t which, uint32_t shard) {
  const uint64_t bytes = factor_bytes(layer, which, shard);
  Payload payload;
  if (options_.carries_payload) {
    const std::span<float> rows = factor_rows(layer, which, shard, step);
    payload.bytes = std::as_bytes(rows);
    if (number_ == WireNumber::kBf16) {
      // The own rows are rounded like those that the peers get.
      auto wire = std::make_shared<std::vector<std::byte>>(bytes);
      to_wire(number_, rows, wire->data());
      from_wire(number_, wire->data(), rows);
      payload = {*wire, wire};
    }
  }
  for (uint32_t worker = 0; worker < plan_.workers(); ++worker) {
    if (worker == rank_) continue;
    send_slices({Role::kWorker, static_cast<uint16_t>(worker)},
                {.kind = FrameKind::kFactor,
                 .view = options_.view,
                 .step = step,
                 .key = layer,
                 .chunk = which,
                 .part = {shard, 1}},
                payload, bytes);
    if (!plan_.assignment.workers_share_host(rank_, worker)) bytes_of_layer_[layer].sent += bytes;
  }
}

// ---- receiving

Placement WorkerExchange::place(NodeId from, const FrameHeader& header) {
  if (header.view != options_.view) {
    ++traffic_.outdated;
    return Placement::dropped();
  }
  if (header.kind == FrameKind::kSum) return place_sum(from, header);
  if (header.kind == FrameKind::kFactor) return place_factor(from, header);
  return Placement::refused("sent a " + name_of(header.kind) + " frame, which is not for a worker");
}

void WorkerExchange::received(NodeId from, const FrameHeader& header) {
  traffic_.bytes_received += header.length;
  if (header.kind == FrameKind::kSum)
    received_sum(header);
  else
    received_factor(from, header);
}

std::string WorkerExchange::fault_of_sum(NodeId from, const FrameHeader& header) const {
  if (header.chunk >= chunks_.size() || from.role != Role::kServer ||
      plan_.chunks[header.chunk].server != from.rank)
    return text("sent a sum of chunk ", header.chunk, ", which is not its own");
  const ChunkState& chunk = chunks_[header.chunk];
  if (!is_slice_of(header, chunk.bytes))
    return text("sent ", header.length, " bytes at ", header.offset, " of chunk ", header.chunk,
                ", which has ", chunk.bytes);
  if (header.step >= chunk.step + chunk.window.size())
    return text("sent the sum of step ", header.step, ", but step ", chunk.step, " is awaited");
  if (header.step >= chunk.sent)
    return text("sent the sum of step ", header.step, " before this worker's part of it");
  return "";
}

Placement WorkerExchange::place_sum(NodeId from, const FrameHeader& header) {
  std::string fault = fault_of_sum(from, header);
  if (!fault.empty()) return Placement::refused(std::move(fault));
  ChunkState& state = chunks_[header.chunk];
  if (header.step < state.step || state.at(header.step).received.has(header.offset / kSliceBytes)) {
    ++traffic_.repeated;
    return Placement::dropped();
  }
  if (!options_.carries_payload) return Placement::into({});
  if (!state.direct)
    return Placement::into(
        std::span(state.at(header.step).sum).subspan(header.offset, header.length));
  const Piece& piece = plan_.chunks[header.chunk].pieces[0];
  const auto first = static_cast<size_t>(piece.first) * sizeof(float) + header.offset;
  return Placement::into(std::as_writable_bytes(memory_.sum(piece.layer, piece.tensor, header.step))
                             .subspan(first, header.length));
}

void WorkerExchange::received_sum(const FrameHeader& header) {
  ChunkState& state = chunks_[header.chunk];
  ChunkStep& of_step = state.at(header.step);
  of_step.received.add(header.offset / kSliceBytes);
  if (!of_step.received.complete(state.slices)) return;
  if (!state.direct && options_.carries_payload) unpack_sum(header.chunk, header.step);
  // A later step's may come first; it counts in its turn.
  while (state.at(state.step).received.complete(state.slices)) finish_chunk_step(header.chunk);
}

void WorkerExchange::finish_chunk_step(uint32_t index) {
  ChunkState& state = chunks_[index];
  const Chunk& chunk = plan_.chunks[index];
  const uint64_t step = state.step++;
  state.at(step).received.clear();
  const bool counts = !plan_.assignment.shares_host(rank_, chunk.server);
  for (const Piece& piece : chunk.pieces) {
    if (counts)
      bytes_of_layer_[piece.layer].received +=
          static_cast<uint64_t>(piece.count) * bytes_of(state.number);
    finish_piece(piece.layer, step);
  }
}

void WorkerExchange::finish_piece(uint32_t layer, uint64_t step) {
  --layers_[layer].due(step);
  finish_if_complete(layer);
}

void WorkerExchange::unpack_sum(uint32_t chunk, uint64_t step) {
  ChunkState& state = chunks_[chunk];
  const std::byte* wire = state.at(step).sum.data();
  for (const Piece& piece : plan_.chunks[chunk].pieces) {
    const std::span<float> target =
        memory_.sum(piece.layer, piece.tensor, step)
            .subspan(static_cast<size_t>(piece.first), static_cast<size_t>(piece.count));
    from_wire(state.number, wire, target);
    wire += target.size() * bytes_of(state.number);
  }
}

std::string WorkerExchange::fault_of_factor(NodeId from, const FrameHeader& header) const {
  if (header.key >= layers_.size() || !layers_[header.key].by_factors || header.chunk > 1)
    return text("sent a factor of layer ", header.key, ", which has none");
  if (from.role != Role::kWorker || header.part.count != 1 || header.part.first >= rows_.size() ||
      plan_.assignment.worker_of(header.part.first) != from.rank || from.rank == rank_)
    return text("sent a factor of logical shard ", header.part.first, ", which is not its own");
  const uint64_t bytes = factor_bytes(header.key, header.chunk, header.part.first);
  if (!is_slice_of(header, bytes))
    return text("sent ", header.length, " bytes at ", header.offset, " of a factor that has ",
                bytes);
  if (header.step >= layers_[header.key].step + steps_of_factors(plan_))
    return text("sent a factor of step ", header.step, ", but step ", layers_[header.key].step,
                " is awaited");
  return "";
}

Placement WorkerExchange::place_factor(NodeId from, const FrameHeader& header) {
  std::string fault = fault_of_factor(from, header);
  if (!fault.empty()) return Placement::refused(std::move(fault));
  LayerState& layer = layers_[header.key];
  const uint32_t shard = header.part.first;
  const uint64_t slice = header.offset / kSliceBytes;
  if (header.step < layer.step ||
      layer.factors_of(header.step).slices[shard][header.chunk][slice]) {
    ++traffic_.repeated;
    return Placement::dropped();
  }
  if (!options_.carries_payload) return Placement::into({});
  if (number_ == WireNumber::kBf16) {
    wire_[from.rank].resize(kSliceBytes);
    return Placement::into(std::span(wire_[from.rank]).first(header.length));
  }
  return Placement::into(
      std::as_writable_bytes(factor_rows(header.key, header.chunk, shard, header.step))
          .subspan(header.offset, header.length));
}

void WorkerExchange::received_factor(NodeId from, const FrameHeader& header) {
  const uint32_t layer = header.key, which = header.chunk, shard = header.part.first;
  FactorStep& factors = layers_[layer].factors_of(header.step);
  if (number_ == WireNumber::kBf16 && options_.carries_payload)
    from_wire(number_, wire_[from.rank].data(),
              factor_rows(layer, which, shard, header.step)
                  .subspan(header.offset / bytes_of(number_), header.length / bytes_of(number_)));
  factors.slices[shard][which][header.offset / kSliceBytes] = true;
  --factors.slices_due;
  if (!plan_.assignment.workers_share_host(rank_, from.rank))
    bytes_of_layer_[layer].received += header.length;
  finish_if_complete(layer);
}

void WorkerExchange::begin_factors(uint32_t layer, FactorStep& factors) const {
  factors.slices.assign(static_cast<size_t>(plan_.logical_shards()), {});
  factors.slices_due = 0;
  for (uint32_t shard = 0; shard < plan_.logical_shards(); ++shard)
    for (uint32_t which : {kDeltas, kActivations}) {
      const uint64_t slices = slices_of(factor_bytes(layer, which, shard));
      factors.slices[shard][which].assign(slices, false);
      factors.slices_due += slices;
    }
}

void WorkerExchange::finish_if_complete(uint32_t index) {
  LayerState& layer = layers_[index];
  while (layer.due(layer.step) == 0 &&
         (!layer.by_factors || layer.factors_of(layer.step).slices_due == 0)) {
    if (layer.by_factors) begin_factors(index, layer.factors_of(layer.step));
    layer.due(layer.step) = layer.pieces;
    arrived_(layer.step++, index);
  }
}

/// Layers that are behind the others are what is waited for, in the order in which they are needed.
std::string WorkerExchange::awaiting(NodeId node) const {
  uint64_t furthest = 0;
  for (const LayerState& layer : layers_) furthest = std::max(furthest, layer.step);
  for (const bool behind : {true, false})
    for (uint32_t layer = 0; layer < layers_.size(); ++layer) {
      if ((layers_[layer].step < furthest) != behind) continue;
      std::string what = awaiting(layer, node);
      if (!what.empty()) return what;
    }
  return "";
}

std::string WorkerExchange::awaiting(uint32_t index, NodeId node) const {
  const LayerState& layer = layers_[index];
  if (node.role == Role::kWorker) return awaited_factors(index, node.rank);
  if (node.role != Role::kServer) return "";
  for (size_t c = 0; c < chunks_.size(); ++c)
    for (const Piece& piece : plan_.chunks[c].pieces)
      if (piece.layer == index && chunks_[c].step == layer.step &&
          plan_.chunks[c].server == node.rank)
        return text("the sum of \"", plan_.layers[index].traffic.name, "\" of step ",
                    layer.step + 1, " from ", name_of(node));
  return "";
}

std::string WorkerExchange::awaited_factors(uint32_t index, uint32_t worker) const {
  const LayerState& layer = layers_[index];
  if (!layer.by_factors) return "";
  const FactorStep& factors = layer.factors_of(layer.step);
  for (uint32_t shard = 0; shard < rows_.size(); ++shard)
    for (const std::vector<bool>& slices : factors.slices[shard])
      if (plan_.assignment.worker_of(shard) == worker &&
          std::find(slices.begin(), slices.end(), false) != slices.end())
        return text("the factors of \"", plan_.layers[index].traffic.name, "\" of step ",
                    layer.step + 1, " from worker ", worker);
  return "";
}

}  // namespace poseidon::comm
