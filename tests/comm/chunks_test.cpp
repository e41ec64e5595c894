#include "comm/plan/chunks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "tests/comm/vgg19.h"

using namespace poseidon::comm;

namespace {

constexpr int64_t kMiB = 1 << 20;

std::vector<Piece> whole_tensors(const std::vector<int64_t>& elements) {
  std::vector<Piece> tensors;
  for (uint32_t i = 0; i < elements.size(); ++i)
    tensors.push_back({.layer = i, .tensor = 0, .first = 0, .count = elements[i]});
  return tensors;
}

std::vector<int64_t> sizes(const std::vector<Chunk>& chunks) {
  std::vector<int64_t> sizes;
  for (const Chunk& chunk : chunks) sizes.push_back(chunk.elements());
  return sizes;
}

std::vector<Chunk> chunks_of(const std::vector<int64_t>& elements) {
  std::vector<Chunk> chunks;
  for (const Piece& tensor : whole_tensors(elements))
    chunks.push_back({.server = 0, .key = tensor.layer, .pieces = {tensor}});
  return chunks;
}

std::vector<uint32_t> servers_of(const std::vector<Chunk>& chunks) {
  std::vector<uint32_t> servers;
  for (const Chunk& chunk : chunks) servers.push_back(chunk.server);
  return servers;
}

}  // namespace

TEST_CASE("a tensor has a chunk on each server if each chunk has at least 128 KiB") {
  CHECK(cut_chunks(whole_tensors({1 << 20}), 16, 2 * kMiB).size() == 16);
  CHECK(cut_chunks(whole_tensors({1 << 20}), 100, 2 * kMiB).size() == 32);
  CHECK(cut_chunks(whole_tensors({1 << 20}), 16, 100001).size() == 43);
  for (const Chunk& chunk : cut_chunks(whole_tensors({1 << 20}), 16, 100001))
    CHECK(chunk.elements() * 4 <= 100001);
}

TEST_CASE("a large tensor is split evenly, at multiples of 256 elements") {
  const std::vector<Chunk> chunks = cut_chunks(whole_tensors({50001}), 1, 65536);
  CHECK(sizes(chunks) == std::vector<int64_t>{12544, 12544, 12544, 12369});
  CHECK(chunks[3].pieces == std::vector<Piece>{{0, 0, 37632, 12369}});
  CHECK(sizes(cut_chunks(whole_tensors({16384}), 1, 65536)) == std::vector<int64_t>{16384});
  CHECK(sizes(cut_chunks(whole_tensors({16385}), 1, 65536)) == std::vector<int64_t>{8448, 7937});
}

TEST_CASE("adjacent small tensors share a chunk, large tensors do not") {
  const std::vector<Chunk> chunks =
      cut_chunks(whole_tensors({100, 200, 16384, 300, 400}), 4, 2 * kMiB);
  REQUIRE(chunks.size() == 3);
  CHECK(chunks[0].pieces == std::vector<Piece>{{0, 0, 0, 100}, {1, 0, 0, 200}});
  CHECK(chunks[1].pieces == std::vector<Piece>{{2, 0, 0, 16384}});
  CHECK(chunks[2].pieces == std::vector<Piece>{{3, 0, 0, 300}, {4, 0, 0, 400}});
  CHECK(chunks[0].key == 0);
  CHECK(chunks[2].key == 3);
}

TEST_CASE("a shared chunk is closed when it is large enough, and stays within the chunk size") {
  // Three tensors of 40 KiB. Two of them, 80 KiB, are enough for a chunk of up to 2 MiB, but too
  // large for 64 KiB.
  const std::vector<Piece> tensors = whole_tensors({10240, 10240, 10240});
  CHECK(sizes(cut_chunks(tensors, 1, 2 * kMiB)) == std::vector<int64_t>{20480, 10240});
  CHECK(sizes(cut_chunks(tensors, 1, 65536)) == std::vector<int64_t>{10240, 10240, 10240});
}

TEST_CASE("chunks are assigned largest first to the least loaded server, ties by key") {
  std::vector<Chunk> chunks = chunks_of({1, 5, 3, 3, 4});
  assign_servers(chunks, 2);
  // 5 goes to server 0, 4 to server 1, 3 (key 2) to server 1, 3 (key 3) to server 0, and 1 to
  // server 1: 8 on each.
  CHECK(servers_of(chunks) == std::vector<uint32_t>{1, 0, 1, 0, 1});
  CHECK(hottest_over_mean(chunks, 2) == 1);
  assign_servers(chunks, 3);
  CHECK(servers_of(chunks) == std::vector<uint32_t>{1, 0, 2, 2, 1});
  CHECK(hottest_over_mean(chunks, 3) == doctest::Approx(6 * 3 / 16.0));
  CHECK(hottest_over_mean({}, 3) == 1);
  // Servers without a chunk count in the mean.
  CHECK(hottest_over_mean(chunks, 6) == doctest::Approx(6 * 6 / 16.0));
}

TEST_CASE("the chunks cover each element once, in order") {
  for (const int64_t servers : {1, 3, 32, 1000}) {
    PlanRequest request = on_nodes(vgg19(1000), 4);
    request.scheme = SchemeRule::kPs;
    request.servers = servers;
    const Plan plan = make_plan(request);
    int64_t elements = 0;
    const Piece* before = nullptr;
    for (const Chunk& chunk : plan.chunks) {
      CHECK(chunk.server < servers);
      CHECK(chunk.key == chunk.pieces[0].layer);
      CHECK(chunk.elements() * 4 <= 2 * kMiB);
      for (const Piece& piece : chunk.pieces) {
        CHECK(piece.first % kCutElements == 0);
        const bool goes_on =
            before != nullptr && before->layer == piece.layer && before->tensor == piece.tensor;
        CHECK(piece.first == (goes_on ? before->first + before->count : 0));
        elements += piece.count;
        before = &piece;
      }
    }
    CHECK(elements == 143667240);
  }
}
