#include "comm/exchange/served_chunk.h"

#include <algorithm>

#include "comm/plan/chunks.h"
#include "comm/wire/mutation.h"
#include "core/error.h"

namespace poseidon::comm {

ServedChunk::ServedChunk(ServerContext& context, uint32_t index)
    : context_(context),
      chunk_(context.plan.chunks[index]),
      index_(index),
      adder_(make_chunk_adder(context, index)),
      step_(context.options.first_step) {
  const uint64_t slices = adder_->contribution().count();
  check(slices <= kMaxSlices, "a chunk has at most 64 slices");
  const size_t nodes = context.tree.nodes().size();
  const SliceSum empty{.complete = std::vector<bool>(nodes),
                       .values = std::vector<SliceValues>(nodes)};
  window_.assign(static_cast<size_t>(context.plan.staleness + 1),
                 {.slices = std::vector<SliceSum>(slices, empty)});
}

std::string ServedChunk::fault_of(uint32_t worker, const FrameHeader& header) const {
  const int32_t leaf = context_.tree.leaf_of(header.part);
  if (leaf < 0 || context_.tree.worker_of(static_cast<size_t>(leaf)) != worker)
    return text("sent a contribution for ", header.part.count, " logical shards from shard ",
                header.part.first, ", which are not assigned to it");
  if (!adder_->contribution().has(header))
    return adder_->contribution().fault_of(header, text("chunk ", index_));
  if (header.step >= step_ + window_.size())
    return text("sent a contribution to step ", header.step, " before the sum of step ", step_,
                " is complete");
  return "";
}

bool ServedChunk::has(const FrameHeader& header) const {
  const auto leaf = static_cast<size_t>(context_.tree.leaf_of(header.part));
  return is_summed(header.step) ||
         at(header.step).slices[EncodedSlices::index_of(header)].complete[leaf];
}

std::string ServedChunk::add(const FrameHeader& header, SliceValues body) {
  if (body != nullptr) {
    body = adder_->decoded(std::move(body), header);
    if (body == nullptr)
      return text("sent values of \"", context_.plan.layers[chunk_.key].traffic.name,
                  "\" that are not encoded as \"", name_of(context_.plan.wire), "\"");
  }
  const auto leaf = static_cast<size_t>(context_.tree.leaf_of(header.part));
  if (!context_.plan.assignment.shares_host(context_.tree.worker_of(leaf), context_.rank))
    at(header.step).bytes_received += header.length;
  climb(header, std::move(body));
  return "";
}

void ServedChunk::climb(const FrameHeader& header, SliceValues values) {
  SliceSum& sum = at(header.step).slices[EncodedSlices::index_of(header)];
  const std::vector<PartTree::Node>& nodes = context_.tree.nodes();
  auto node = static_cast<size_t>(context_.tree.leaf_of(header.part));
  if (sum.complete[node]) {  // only a deliberate fault reaches this (Mutation)
    if (sum.values[node] != nullptr)
      sum.values[node] = adder_->add(std::move(sum.values[node]), std::move(values), header);
    return;
  }
  while (nodes[node].parent >= 0) {
    sum.complete[node] = true;
    const auto sibling = static_cast<size_t>(nodes[node].sibling);
    if (!sum.complete[sibling]) {
      sum.values[node] = std::move(values);
      return;
    }
    SliceValues other = std::move(sum.values[sibling]);
    if (values != nullptr && !mutated(Mutation::kDroppedContribution))
      values = adder_->add(std::move(values), std::move(other), header);
    node = static_cast<size_t>(nodes[node].parent);
  }
  send_sum(header, values);
  finish_slice(header);
}

void ServedChunk::send_sum(const FrameHeader& of, const SliceValues& values) {
  FrameHeader header{.kind = FrameKind::kSum,
                     .view = context_.options.view,
                     .step = of.step,
                     .key = chunk_.key,
                     .chunk = index_,
                     .part = context_.plan.assignment.all_shards()};
  adder_->sum().place(EncodedSlices::index_of(of), header);
  Payload payload;
  if (values != nullptr) {
    SliceValues wire = adder_->encoded(values, of);
    payload = {wire->bytes().first(header.length), wire};
  }
  for (int64_t worker = 0; worker < context_.plan.workers(); ++worker) {
    context_.outlet.send({Role::kWorker, static_cast<uint16_t>(worker)}, header, payload,
                         bulk_priority(chunk_.key, header.step));
    context_.traffic.bytes_sent += header.length;
  }
}

void ServedChunk::finish_slice(const FrameHeader& of) {
  StepSum& sum = at(of.step);
  SliceSum& slice = sum.slices[EncodedSlices::index_of(of)];
  std::fill(slice.complete.begin(), slice.complete.end(), true);
  ++sum.slices_done;
  // A later step may be complete first. It is counted only after the earlier steps.
  while (at(step_).slices_done == sum.slices.size()) {
    StepSum& done = at(step_++);
    count_bytes(done.bytes_received);
    done.slices_done = done.bytes_received = 0;
    for (SliceSum& each : done.slices) std::fill(each.complete.begin(), each.complete.end(), false);
  }
}

void ServedChunk::count_bytes(uint64_t received) {
  std::vector<LayerBytes>& layers = context_.bytes_of_layer;
  if (received > 0)
    count_chunk(chunk_, adder_->contribution().codec(), received, layers, &LayerBytes::received);
  for (uint32_t worker = 0; worker < context_.plan.workers(); ++worker)
    if (!context_.plan.assignment.shares_host(worker, context_.rank))
      count_chunk(chunk_, adder_->sum().codec(), adder_->sum().bytes(), layers, &LayerBytes::sent);
}

std::string ServedChunk::awaiting(uint32_t worker) const {
  const PartTree& tree = context_.tree;
  for (const SliceSum& slice : at(step_).slices) {
    const auto leaves = slice.complete.begin() + static_cast<int64_t>(tree.leaves());
    if (std::none_of(slice.complete.begin(), leaves, [](bool done) { return done; })) continue;
    for (size_t leaf = 0; leaf < tree.leaves(); ++leaf)
      if (!slice.complete[leaf] && tree.worker_of(leaf) == worker)
        return text("the gradient of \"", context_.plan.layers[chunk_.key].traffic.name,
                    "\" of step ", step_ + 1, " from worker ", worker);
  }
  return "";
}

}  // namespace poseidon::comm
