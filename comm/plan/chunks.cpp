#include "comm/plan/chunks.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <queue>
#include <utility>

#include "core/error.h"

namespace poseidon::comm {

namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

int64_t bytes_of(const Piece& piece) { return piece.count * kFloatBytes; }

int64_t divided_up(int64_t value, int64_t divisor) { return (value + divisor - 1) / divisor; }

/// Divides a large tensor evenly, so that no piece is much smaller than the others.
void cut_tensor(const Piece& tensor, int64_t servers, int64_t max_bytes,
                std::vector<Chunk>& chunks) {
  const int64_t bytes = bytes_of(tensor);
  constexpr int64_t kUnit = kCutElements * kFloatBytes;
  const int64_t parts = std::max(divided_up(bytes, max_bytes / kUnit * kUnit),
                                 std::min(servers, bytes / kShareBytes));
  const int64_t length = divided_up(divided_up(tensor.count, parts), kCutElements) * kCutElements;
  for (int64_t first = 0; first < tensor.count; first += length) {
    Piece piece = tensor;
    piece.first = first;
    piece.count = std::min(length, tensor.count - first);
    chunks.push_back({.server = 0, .key = tensor.layer, .pieces = {piece}});
  }
}

/// All tensors of a chunk have the same wire format.
const TensorTraffic& first_tensor(const Plan& plan, const Chunk& chunk) {
  const Piece& piece = chunk.pieces[0];
  return plan.layers[piece.layer].traffic.tensors[piece.tensor];
}

}  // namespace

int64_t Chunk::elements() const {
  int64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.count;
  return sum;
}

WireFormat wire_format_of(WireFormat wire, const TensorTraffic& tensor) {
  return tensor.exact ? WireFormat::kFp32 : wire;
}

WireFormat wire_format_of(const Plan& plan, const Piece& piece) {
  return wire_format_of(plan.wire, plan.layers[piece.layer].traffic.tensors[piece.tensor]);
}

WireFormat wire_format_of(const Plan& plan, const Chunk& chunk) {
  return wire_format_of(plan, chunk.pieces[0]);
}

const Codec& contribution_codec(WireFormat wire, const TensorTraffic& tensor, const Part& part) {
  if (rounds_shards(wire, tensor)) return part.count == 1 ? rounded_codec() : exact_codec();
  return codec_of(wire_format_of(wire, tensor));
}

const Codec& contribution_codec(const Plan& plan, const Chunk& chunk, const Part& part) {
  return contribution_codec(plan.wire, first_tensor(plan, chunk), part);
}

const Codec& sum_codec(WireFormat wire, const TensorTraffic& tensor) {
  return rounds_shards(wire, tensor) ? rounded_codec() : codec_of(wire_format_of(wire, tensor));
}

const Codec& sum_codec(const Plan& plan, const Chunk& chunk) {
  return sum_codec(plan.wire, first_tensor(plan, chunk));
}

const ValueCodec& factor_codec(WireFormat wire) { return codec_of(wire); }

bool rounds_shards(WireFormat wire, const TensorTraffic& tensor) {
  return wire_format_of(wire, tensor) == WireFormat::kInt8;
}

bool rounds_shards(const Plan& plan, const Chunk& chunk) {
  return rounds_shards(plan.wire, first_tensor(plan, chunk));
}

std::vector<Piece> ps_tensors(std::span<const LayerPlan> layers) {
  std::vector<Piece> tensors;
  for (uint32_t layer = 0; layer < layers.size(); ++layer) {
    const LayerPlan& plan = layers[layer];
    const SchemeTraits& scheme = traits_of(plan.scheme);
    if (scheme.sends == Content::kNothing) continue;
    for (uint32_t tensor = 0; tensor < plan.traffic.tensors.size(); ++tensor) {
      const TensorTraffic& traffic = plan.traffic.tensors[tensor];
      if (scheme.uses_servers() || traffic.statistic)
        tensors.push_back(
            {.layer = layer, .tensor = tensor, .first = 0, .count = traffic.elements});
    }
  }
  return tensors;
}

std::vector<Chunk> cut_chunks(std::span<const Piece> tensors, int64_t servers, int64_t max_bytes,
                              bool alone) {
  std::vector<Chunk> chunks;
  int64_t shared_bytes = 0;  // of the last chunk, if small neighbors may still join it; else 0
  for (const Piece& tensor : tensors) {
    const int64_t bytes = bytes_of(tensor);
    if (alone || bytes >= kSmallBytes) {
      cut_tensor(tensor, servers, max_bytes, chunks);
      shared_bytes = 0;
      continue;
    }
    const bool joins =
        shared_bytes > 0 && shared_bytes < kSmallBytes && shared_bytes + bytes <= max_bytes;
    if (!joins) {
      chunks.push_back({.server = 0, .key = tensor.layer, .pieces = {}});
      shared_bytes = 0;
    }
    chunks.back().pieces.push_back(tensor);
    shared_bytes += bytes;
  }
  return chunks;
}

std::vector<Chunk> cut_chunks(const Plan& plan, std::span<const Piece> tensors, int64_t max_bytes) {
  std::vector<Chunk> chunks;
  while (!tensors.empty()) {
    const WireFormat format = wire_format_of(plan, tensors[0]);
    const auto end = std::ranges::find_if(
        tensors, [&](const Piece& tensor) { return wire_format_of(plan, tensor) != format; });
    const auto alike = static_cast<size_t>(end - tensors.begin());
    std::ranges::move(
        cut_chunks(tensors.first(alike), plan.servers(), max_bytes, format == WireFormat::kInt8),
        std::back_inserter(chunks));
    tensors = tensors.subspan(alike);
  }
  return chunks;
}

std::string fault_in_chunk(const Plan& plan, const Chunk& chunk, const Piece& piece) {
  const auto name = [&] { return text("tensor ", piece.tensor, " of layer ", piece.layer); };
  if (wire_format_of(plan, piece) != wire_format_of(plan, chunk))
    return text("expected a tensor with the wire format of the first one in its chunk, got ",
                name(), ": \"wire\": \"", name_of(plan.wire), "\" rounds only one of the two");
  if (!rounds_shards(plan, chunk)) return "";
  if (chunk.pieces.size() > 1)
    return text("expected one piece in each chunk that \"wire\": \"", name_of(plan.wire),
                "\" rounds, got ", chunk.pieces.size());
  if (piece.first % kCutElements != 0)
    return text("expected ", name(), " from a multiple of ", kCutElements,
                " elements on, because \"wire\": \"", name_of(plan.wire),
                "\" rounds blocks of elements, got ", piece.first);
  return "";
}

void assign_servers(std::span<Chunk> chunks, int64_t servers) {
  std::vector<int64_t> sizes;
  for (const Chunk& chunk : chunks) sizes.push_back(chunk.elements());
  std::vector<size_t> order(chunks.size());
  std::iota(order.begin(), order.end(), 0);
  // Chunks are in order of key, and equal sizes keep that order.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(-sizes[a], chunks[a].key) < std::pair(-sizes[b], chunks[b].key);
  });
  using Load = std::pair<int64_t, uint32_t>;  // elements, server
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int64_t server = 0; server < servers; ++server)
    least.emplace(0, static_cast<uint32_t>(server));
  for (size_t index : order) {
    const auto [load, server] = least.top();
    least.pop();
    chunks[index].server = server;
    least.emplace(load + sizes[index], server);
  }
}

double hottest_over_mean(std::span<const Chunk> chunks, int64_t servers) {
  std::vector<int64_t> loads(static_cast<size_t>(servers));
  for (const Chunk& chunk : chunks) loads[chunk.server] += chunk.elements();
  const int64_t total = std::accumulate(loads.begin(), loads.end(), int64_t{0});
  if (total == 0) return 1;
  const int64_t hottest = *std::max_element(loads.begin(), loads.end());
  return static_cast<double>(hottest) * static_cast<double>(servers) / static_cast<double>(total);
}

void count_chunk(const Chunk& chunk, const Codec& codec, uint64_t bytes,
                 std::vector<LayerBytes>& layers, uint64_t LayerBytes::*direction) {
  if (chunk.pieces.size() == 1) {
    layers[chunk.pieces[0].layer].*direction += bytes;
    return;
  }
  // All encodings of a chunk with several pieces have the same length.
  const uint64_t transfers = bytes / codec.bytes(static_cast<uint64_t>(chunk.elements()));
  for (const Piece& piece : chunk.pieces)
    layers[piece.layer].*direction += transfers * codec.bytes(static_cast<uint64_t>(piece.count));
}

}  // namespace poseidon::comm
