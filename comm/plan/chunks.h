#pragma once

#include <span>
#include <vector>

#include "comm/plan/plan.h"
#include "comm/wire/number_format.h"

/// How the tensors that go by the parameter server are cut, and dealt to the servers.
namespace poseidon::comm {

/// Tensors smaller than this share chunks with their neighbours, and no limit on chunks is below
/// it.
inline constexpr int64_t kSmallBytes = 64 * 1024;
/// A tensor that is cut only so that all servers share it is not cut into less than this: each
/// frame costs the processor.
inline constexpr int64_t kShareBytes = 128 * 1024;
/// Tensors are cut at multiples of this many elements, a cache line of fp32.
inline constexpr int64_t kCutElements = 16;

/// The number format in which a tensor's sums travel, where `wire` is that of the plan.
DataType number_of(DataType wire, const TensorTraffic& tensor);
/// The number format of a piece's tensor, and of a chunk, whose tensors all have the same.
DataType number_of(const Plan& plan, const Piece& piece);
DataType number_of(const Plan& plan, const Chunk& chunk);
/// The number format of factors.
DataType number_of_factors(const Plan& plan);

/// The tensors of `layers` that servers sum, in order, each as one whole piece.
std::vector<Piece> ps_tensors(std::span<const LayerPlan> layers);

/// Cuts tensors of one number format into chunks of at most `most_bytes` (at least kSmallBytes),
/// each tensor into even pieces, one for each server where they do not fall below kShareBytes: when
/// all workers send a layer at once, they then send to all servers. Neighbours under kSmallBytes
/// share a chunk until it has that size. The chunks are in order of key and have no server yet.
std::vector<Chunk> cut_chunks(std::span<const Piece> tensors, int64_t servers, int64_t most_bytes);
/// Cuts all tensors of a plan; tensors of different number formats share no chunk.
std::vector<Chunk> cut_chunks(const Plan& plan, std::span<const Piece> tensors, int64_t most_bytes);

/// Gives each chunk its server: the largest chunk first, each to the server that has least.
void deal(std::span<Chunk> chunks, int64_t servers);

/// The elements of the fullest server over the mean of all servers; 1 without chunks.
double hottest_over_mean(std::span<const Chunk> chunks, int64_t servers);

}  // namespace poseidon::comm
