#include "comm/exchange/server_shard.h"

#include "comm/plan/chunks.h"
#include "comm/wire/mutation.h"
#include "comm/wire/slices.h"
#include "core/error.h"

namespace poseidon::comm {

ServerShard::ServerShard(const Plan& plan, uint32_t rank, const Options& options, Outlet& outlet)
    : plan_(plan),
      rank_(rank),
      options_(options),
      outlet_(outlet),
      tree_(plan.assignment.ranges()),
      own_index_(plan.chunks.size(), -1),
      incoming_(static_cast<size_t>(plan.workers())),
      bytes_of_layer_(plan.layers.size()) {
  for (size_t i = 0; i < plan.chunks.size(); ++i) {
    const Chunk& chunk = plan.chunks[i];
    if (chunk.server != rank) continue;
    own_index_[i] = static_cast<int32_t>(own_.size());
    const auto elements = static_cast<uint64_t>(chunk.elements());
    const EncodedSlices contribution(contribution_codec(plan, chunk), elements);
    check(contribution.count() <= kMaxSlices, "a chunk has at most 64 slices");
    own_.push_back({.key = chunk.key,
                    .contribution = contribution,
                    .sum = {sum_codec(plan, chunk), elements},
                    .step = options.first_step});
    const SliceSum empty{.complete = std::vector<bool>(tree_.nodes().size()),
                         .values = std::vector<Values>(tree_.nodes().size())};
    own_.back().window.assign(static_cast<size_t>(plan.staleness + 1),
                              {.slices = std::vector<SliceSum>(contribution.count(), empty)});
  }
}

ServerShard::OwnChunk* ServerShard::own_chunk(uint32_t chunk) {
  if (chunk >= own_index_.size() || own_index_[chunk] < 0) return nullptr;
  return &own_[static_cast<size_t>(own_index_[chunk])];
}

std::string ServerShard::fault_of(uint32_t worker, const FrameHeader& header) const {
  if (header.chunk >= own_index_.size() || own_index_[header.chunk] < 0)
    return text("sent a contribution to chunk ", header.chunk, ", which is not on server ", rank_);
  const OwnChunk& chunk = own_[static_cast<size_t>(own_index_[header.chunk])];
  const int32_t leaf = tree_.leaf_of(header.part);
  if (leaf < 0 || tree_.worker_of(static_cast<size_t>(leaf)) != worker)
    return text("sent a contribution for ", header.part.count, " logical shards from shard ",
                header.part.first, ", which are not assigned to it");
  if (!chunk.contribution.has(header))
    return chunk.contribution.fault_of(header, text("chunk ", header.chunk));
  if (header.step >= chunk.step + chunk.window.size())
    return text("sent a contribution to step ", header.step, " before the sum of step ", chunk.step,
                " is complete");
  return "";
}

Destination ServerShard::destination(uint32_t worker, const FrameHeader& header) {
  if (header.view != options_.view && !mutated(Mutation::kOldView)) {
    ++traffic_.outdated;
    return Destination::dropped();
  }
  std::string fault = fault_of(worker, header);
  if (!fault.empty()) return Destination::refused(std::move(fault));
  OwnChunk& chunk = *own_chunk(header.chunk);
  const auto leaf = static_cast<size_t>(tree_.leaf_of(header.part));
  if (header.step < chunk.step ||
      chunk.at(header.step).slices[EncodedSlices::index_of(header)].complete[leaf]) {
    ++traffic_.repeated;
    if (!mutated(Mutation::kDoubleContribution) || header.step < chunk.step)
      return Destination::dropped();
  }
  if (!options_.carries_payload) return Destination::into({});
  Incoming& incoming = incoming_[worker];
  incoming.values = pool_.take(chunk.contribution.elements_of(header));
  if (chunk.contribution.codec().copies())
    return Destination::into(std::as_writable_bytes(incoming.values->values()));
  incoming.wire.resize(header.length);
  return Destination::into(incoming.wire);
}

void ServerShard::forget(uint32_t worker) {
  if (worker < incoming_.size()) incoming_[worker].values.reset();
}

void ServerShard::received(uint32_t worker, const FrameHeader& header) {
  traffic_.bytes_received += header.length;
  Incoming& incoming = incoming_[worker];
  Values values = std::move(incoming.values);
  const Codec& codec = own_chunk(header.chunk)->contribution.codec();
  if (values != nullptr && !codec.copies()) codec.decode(incoming.wire.data(), values->values());
  complete(header, std::move(values));
}

void ServerShard::complete(const FrameHeader& header, Values values) {
  SliceSum& sum = own_chunk(header.chunk)->at(header.step).slices[EncodedSlices::index_of(header)];
  const std::vector<PartTree::Node>& nodes = tree_.nodes();
  auto node = static_cast<size_t>(tree_.leaf_of(header.part));
  if (sum.complete[node]) {  // only a deliberate fault reaches this (Mutation)
    if (sum.values[node] != nullptr) add_into(sum.values[node]->values(), values->values());
    return;
  }
  while (nodes[node].parent >= 0) {
    sum.complete[node] = true;
    const auto sibling = static_cast<size_t>(nodes[node].sibling);
    if (!sum.complete[sibling]) {
      sum.values[node] = std::move(values);
      return;
    }
    // Addition of two numbers is commutative, so the order of arrival does not change the bits.
    if (values != nullptr && !mutated(Mutation::kDroppedContribution))
      add_into(values->values(), sum.values[sibling]->values());
    sum.values[sibling].reset();
    node = static_cast<size_t>(nodes[node].parent);
  }
  send_sum(header, values);
  finish_slice(header);
}

void ServerShard::send_sum(const FrameHeader& of, const Values& values) {
  const OwnChunk& own = *own_chunk(of.chunk);
  FrameHeader header{.kind = FrameKind::kSum,
                     .view = options_.view,
                     .step = of.step,
                     .key = own.key,
                     .chunk = of.chunk,
                     .part = plan_.assignment.all_shards()};
  own.sum.place(EncodedSlices::index_of(of), header);
  Payload payload;
  if (values != nullptr) {
    if (!own.sum.codec().copies())  // overwrites the input: encoded values are smaller
      own.sum.codec().encode(values->values(), std::as_writable_bytes(values->values()).data());
    payload = {std::as_bytes(values->values()).first(header.length), values};
  }
  for (int64_t worker = 0; worker < plan_.workers(); ++worker) {
    outlet_.send({Role::kWorker, static_cast<uint16_t>(worker)}, header, payload,
                 bulk_priority(own.key, header.step));
    traffic_.bytes_sent += header.length;
  }
}

void ServerShard::finish_slice(const FrameHeader& of) {
  OwnChunk& chunk = *own_chunk(of.chunk);
  StepSum& sum = chunk.at(of.step);
  SliceSum& slice = sum.slices[EncodedSlices::index_of(of)];
  std::fill(slice.complete.begin(), slice.complete.end(), true);
  ++sum.slices_done;
  // A later step may be complete first. It is counted only after the earlier steps.
  while (chunk.at(chunk.step).slices_done == sum.slices.size()) {
    StepSum& done = chunk.at(chunk.step++);
    done.slices_done = 0;
    for (SliceSum& each : done.slices) std::fill(each.complete.begin(), each.complete.end(), false);
    count_bytes(of.chunk);
  }
}

void ServerShard::count_bytes(uint32_t chunk) {
  const OwnChunk& own = *own_chunk(chunk);
  for (const Piece& piece : plan_.chunks[chunk].pieces) {
    LayerBytes& bytes = bytes_of_layer_[piece.layer];
    const auto elements = static_cast<uint64_t>(piece.count);
    for (size_t leaf = 0; leaf < tree_.leaves(); ++leaf)
      if (!plan_.assignment.shares_host(tree_.worker_of(leaf), rank_))
        bytes.received += own.contribution.codec().bytes(elements);
    for (uint32_t worker = 0; worker < plan_.workers(); ++worker)
      if (!plan_.assignment.shares_host(worker, rank_))
        bytes.sent += own.sum.codec().bytes(elements);
  }
}

std::string ServerShard::awaiting(uint32_t worker) const {
  for (size_t i = 0; i < plan_.chunks.size(); ++i) {
    if (own_index_[i] < 0) continue;
    const OwnChunk& chunk = own_[static_cast<size_t>(own_index_[i])];
    for (const SliceSum& slice : chunk.at(chunk.step).slices) {
      const auto leaves = slice.complete.begin() + static_cast<int64_t>(tree_.leaves());
      if (std::none_of(slice.complete.begin(), leaves, [](bool done) { return done; })) continue;
      for (size_t leaf = 0; leaf < tree_.leaves(); ++leaf)
        if (!slice.complete[leaf] && tree_.worker_of(leaf) == worker)
          return text("the gradient of \"", plan_.layers[chunk.key].traffic.name, "\" of step ",
                      chunk.step + 1, " from worker ", worker);
    }
  }
  return "";
}

}  // namespace poseidon::comm
