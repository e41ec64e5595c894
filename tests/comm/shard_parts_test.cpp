#include "comm/plan/shard_parts.h"

#include <doctest/doctest.h>

#include <bit>
#include <set>
#include <utility>

#include "comm/plan/assignment.h"

using namespace poseidon::comm;

namespace {

/// All nodes of the tree over `count` shards from `first` on, by its definition.
void add_nodes(uint32_t first, uint32_t count, std::set<std::pair<uint32_t, uint32_t>>& nodes) {
  nodes.emplace(first, count);
  if (count == 1) return;
  const uint32_t left = std::bit_floor(count - 1);
  add_nodes(first, left, nodes);
  add_nodes(first + left, count - left, nodes);
}

/// The sum of all shards as text, by the definition of the tree: "((0+1)+2)".
std::string definition(uint32_t first, uint32_t count) {
  if (count == 1) return std::to_string(first);
  const uint32_t left = std::bit_floor(count - 1);
  return "(" + definition(first, left) + "+" + definition(first + left, count - left) + ")";
}

/// The same sum as workers and servers make it: each worker sums its parts, a server adds them.
std::string by_parts(const PartTree& tree, size_t node) {
  if (node < tree.leaves()) {
    const Part part = tree.nodes()[node].part;
    return definition(part.first, part.count);
  }
  std::vector<size_t> children;
  for (size_t i = 0; i < tree.nodes().size(); ++i)
    if (tree.nodes()[i].parent == static_cast<int32_t>(node)) children.push_back(i);
  if (children.size() != 2) return "?";
  if (tree.nodes()[children[1]].part.first < tree.nodes()[children[0]].part.first)
    std::swap(children[0], children[1]);
  return "(" + by_parts(tree, children[0]) + "+" + by_parts(tree, children[1]) + ")";
}

/// The sum as one process makes it: a binary counter merges shards in order. Each digit is a
/// finished sum, and the last shard merges all digits.
std::string by_counter(uint32_t count) {
  std::vector<std::string> digits(33);
  for (uint32_t shard = 0; shard < count; ++shard) {
    const bool last = shard == count - 1;
    std::string value = std::to_string(shard);
    size_t level = 0;
    for (uint32_t counter = shard; counter != 0; counter >>= 1, ++level) {
      if ((counter & 1) != 0)
        value = "(" + digits[level] + "+" + value + ")";
      else if (!last)
        break;
    }
    if (last) return value;
    digits[level] = value;
  }
  return "";
}

}  // namespace

TEST_CASE("the parts of a range cover it exactly and are the largest tree nodes within it") {
  for (uint32_t shards = 1; shards <= 24; ++shards) {
    std::set<std::pair<uint32_t, uint32_t>> nodes;
    add_nodes(0, shards, nodes);
    for (uint32_t first = 0; first < shards; ++first)
      for (uint32_t count = 1; first + count <= shards; ++count) {
        uint32_t next = first;
        for (const Part& part : parts_within(shards, {first, count})) {
          CHECK(part.first == next);
          CHECK(nodes.contains({part.first, part.count}));
          for (const auto& [other, length] : nodes) {
            const bool holds_it = other <= part.first &&
                                  other + length >= part.first + part.count && length > part.count;
            const bool in_range = other >= first && other + length <= first + count;
            CHECK_FALSE((holds_it && in_range));
          }
          next += part.count;
        }
        CHECK(next == first + count);
      }
  }
}

TEST_CASE("workers' parts and the server's tree add in the defined order") {
  for (uint32_t shards = 1; shards <= 33; ++shards) {
    const std::string expected = definition(0, shards);
    CHECK(by_counter(shards) == expected);
    for (uint32_t workers = 1; workers <= shards; ++workers) {
      CAPTURE(shards);
      CAPTURE(workers);
      const Assignment assignment = even_assignment(workers, 1, false, shards);
      const PartTree tree(assignment.ranges());
      CHECK(by_parts(tree, tree.nodes().size() - 1) == expected);
      CHECK(tree.nodes().back().part == Part{0, shards});
      CHECK(tree.nodes().back().parent == -1);
      for (size_t leaf = 0; leaf < tree.leaves(); ++leaf) {
        const Part part = tree.nodes()[leaf].part;
        const Part own = assignment.shards_of(tree.worker_of(leaf));
        CHECK(part.first >= own.first);
        CHECK(part.first + part.count <= own.first + own.count);
        CHECK(tree.leaf_of(part) == static_cast<int32_t>(leaf));
      }
    }
  }
}

TEST_CASE("unequal shards on any worker add in the defined order") {
  const std::vector<std::vector<Part>> all{{{0, 4}, {4, 1}, {5, 2}},
                                           {{5, 2}, {0, 4}, {4, 1}},
                                           {{6, 1}, {0, 1}, {1, 5}},
                                           {{12, 9}, {1, 11}, {0, 1}}};
  for (const std::vector<Part>& ranges : all) {
    uint32_t shards = 0;
    for (const Part& range : ranges) shards += range.count;
    const PartTree tree(ranges);
    CHECK(by_parts(tree, tree.nodes().size() - 1) == definition(0, shards));
    for (size_t leaf = 0; leaf < tree.leaves(); ++leaf) {
      const Part part = tree.nodes()[leaf].part, own = ranges[tree.worker_of(leaf)];
      CHECK(part.first >= own.first);
      CHECK(part.first + part.count <= own.first + own.count);
    }
  }
}

TEST_CASE("a range that is no worker's part is no leaf of the tree") {
  const PartTree tree(even_assignment(4, 1, false, 12).ranges());
  CHECK(tree.leaf_of({0, 3}) == -1);  // shards 0 to 2 of worker 0 are two nodes: 0 to 1, and 2
  CHECK(tree.leaf_of({0, 2}) == 0);
  CHECK(tree.leaf_of({2, 1}) == 1);
  CHECK(tree.leaf_of({0, 12}) == -1);
  CHECK(tree.leaf_of({12, 1}) == -1);
  CHECK(tree.leaf_of({4000000000u, 1}) == -1);
}
