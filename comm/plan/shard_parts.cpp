#include "comm/plan/shard_parts.h"

namespace poseidon::comm {

namespace {

bool within(Part part, Part range) {
  return part.first >= range.first && part.first + part.count <= range.first + range.count;
}

bool apart(Part part, Part range) {
  return part.first >= range.first + range.count || part.first + part.count <= range.first;
}

void collect(Part node, Part range, std::vector<Part>& parts) {
  if (apart(node, range)) return;
  if (within(node, range)) {
    parts.push_back(node);
    return;
  }
  const uint32_t left = left_count(node.count);
  collect({node.first, left}, range, parts);
  collect({node.first + left, node.count - left}, range, parts);
}

}  // namespace

std::vector<Part> parts_within(uint32_t shards, Part range) {
  std::vector<Part> parts;
  collect({0, shards}, range, parts);
  return parts;
}

PartTree::PartTree(std::span<const Part> ranges) {
  uint32_t shards = 0;
  for (const Part& range : ranges) shards += range.count;
  leaf_by_first_.resize(shards, -1);
  for (uint32_t worker = 0; worker < ranges.size(); ++worker)
    for (const Part& part : parts_within(shards, ranges[worker])) {
      leaf_by_first_[part.first] = static_cast<int32_t>(nodes_.size());
      worker_of_leaf_.push_back(worker);
      nodes_.push_back({part});
    }
  leaves_ = nodes_.size();
  add_inner({0, shards});
}

int32_t PartTree::add_inner(Part part) {
  const int32_t leaf = leaf_of(part);
  if (leaf >= 0) return leaf;
  const uint32_t length = left_count(part.count);
  const int32_t left = add_inner({part.first, length});
  const int32_t right = add_inner({part.first + length, part.count - length});
  const auto parent = static_cast<int32_t>(nodes_.size());
  nodes_.push_back({part});
  nodes_[static_cast<size_t>(left)].parent = nodes_[static_cast<size_t>(right)].parent = parent;
  nodes_[static_cast<size_t>(left)].sibling = right;
  nodes_[static_cast<size_t>(right)].sibling = left;
  return parent;
}

int32_t PartTree::leaf_of(Part part) const {
  if (part.first >= leaf_by_first_.size()) return -1;
  const int32_t leaf = leaf_by_first_[part.first];
  return leaf >= 0 && nodes_[static_cast<size_t>(leaf)].part == part ? leaf : -1;
}

}  // namespace poseidon::comm
