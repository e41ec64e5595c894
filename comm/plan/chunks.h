#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/wire/number_format.h"

/// How tensors that go by the parameter server are cut, and dealt to the servers.
namespace poseidon::comm {

/// Tensors below this share chunks with their neighbours, and no chunk need be smaller.
inline constexpr int64_t kSmallBytes = 64 * 1024;
/// Tensors are cut at multiples of so many elements: a cache line of fp32.
inline constexpr int64_t kCutElements = 16;

/// As what the sums of a tensor travel, where the wire of the plan is `wire`.
WireNumber number_of(std::string_view wire, const TensorTraffic& tensor);
/// The same of a tensor of the plan, and of a chunk, whose tensors all travel alike.
WireNumber number_of(const Plan& plan, const Piece& piece);
WireNumber number_of(const Plan& plan, const Chunk& chunk);
/// As what factors travel.
WireNumber number_of_factors(const Plan& plan);

/// The tensors of `layers` that are summed by servers, in order, each as one whole piece.
std::vector<Piece> ps_tensors(std::span<const LayerPlan> layers);

/// Most bytes of a chunk: `chunk_bytes`, or an eighth of a server's share of `total_bytes`, but not
/// below kSmallBytes; a multiple of kCutElements.
int64_t cut_bytes(int64_t total_bytes, int64_t servers, int64_t chunk_bytes);

/// Cuts tensors that travel alike into chunks of at most `most_bytes`, a tensor into even parts;
/// neighbours under kSmallBytes share a chunk until it has that size. In order of key; not dealt
/// yet.
std::vector<Chunk> cut_chunks(std::span<const Piece> tensors, int64_t most_bytes);
/// The same of all of a plan's tensors: those that travel otherwise share no chunk.
std::vector<Chunk> cut_chunks(const Plan& plan, std::span<const Piece> tensors, int64_t most_bytes);

/// Gives each chunk its server: the largest first, each to the server that has least.
void deal(std::span<Chunk> chunks, int64_t servers);

/// Elements of the fullest server over the mean of all; 1 without chunks.
double hottest_over_mean(std::span<const Chunk> chunks, int64_t servers);

}  // namespace poseidon::comm
