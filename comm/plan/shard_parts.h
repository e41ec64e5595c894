#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/wire/wire.h"

/// The fixed tree of additions over the logical shards: the sum of a range is that of its left
/// child, whose length is the largest power of two below the range's, plus that of the rest. All
/// sums follow the tree, whichever worker holds which shards, so their bits are the same.
namespace poseidon::comm {

/// The length of the left child of a range of `count` > 1 shards.
inline uint32_t left_count(uint32_t count) { return std::bit_floor(count - 1); }

/// The largest nodes of the tree over `shards` that lie within `range`, in order: what a worker
/// that holds `range` can sum by itself.
std::vector<Part> parts_within(uint32_t shards, Part range);

/// The tree above the parts of all workers, by which a server adds.
class PartTree {
 public:
  /// `ranges` are the workers' shards, which cover all of them.
  explicit PartTree(std::span<const Part> ranges);

  struct Node {
    Part part;
    int32_t parent = -1, sibling = -1;
    bool operator==(const Node&) const = default;
  };
  /// The leaves are the parts of one worker after another; the root is last.
  const std::vector<Node>& nodes() const { return nodes_; }
  size_t leaves() const { return leaves_; }
  /// The leaf of a part, or -1.
  int32_t leaf_of(Part part) const;
  /// The worker that contributes a leaf.
  uint32_t worker_of(size_t leaf) const { return worker_of_leaf_[leaf]; }

 private:
  int32_t add_inner(Part part);

  std::vector<Node> nodes_;
  size_t leaves_ = 0;
  std::vector<uint32_t> worker_of_leaf_;
  std::vector<int32_t> leaf_by_first_;
};

}  // namespace poseidon::comm
