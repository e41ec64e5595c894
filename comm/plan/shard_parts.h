#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "comm/wire/wire.h"

/// The fixed summation tree over the logical shards. The sum of a range is the sum of its left
/// child plus the sum of its right child. The number of shards of the left child is the largest
/// power of two below the range's length. All sums follow the tree, independently of the assignment
/// of shards to workers. So they are equal bit by bit.
namespace poseidon::comm {

/// The length of the left child of a range of `count` > 1 shards.
inline uint32_t left_count(uint32_t count) { return std::bit_floor(count - 1); }

/// The largest nodes of the tree over `shards` that lie within `range`, in order. A worker to which
/// `range` is assigned can sum these nodes alone.
std::vector<Part> parts_within(uint32_t shards, Part range);

/// The top of the fixed tree. Its leaves are the parts of all workers. A server adds contributions
/// in the order of this tree.
class PartTree {
 public:
  /// `ranges` are the workers' shards. Together they cover all shards.
  explicit PartTree(std::span<const Part> ranges);

  struct Node {
    Part part;
    int32_t parent = -1, sibling = -1;
    bool operator==(const Node&) const = default;
  };
  /// The leaves are the parts of worker 0, worker 1 and so on; the root is last.
  const std::vector<Node>& nodes() const { return nodes_; }
  size_t leaves() const { return leaves_; }
  /// The index of a part's leaf in nodes(); -1: the part is no leaf.
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
