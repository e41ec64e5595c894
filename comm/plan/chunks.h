#pragma once

#include <span>
#include <string>
#include <vector>

#include "comm/plan/counters.h"
#include "comm/plan/plan.h"
#include "comm/wire/codec.h"

/// Divides the tensors that the parameter server sums into chunks, and assigns chunks to servers.
/// Sizes in bytes here are those of fp32 elements, for every wire format.
namespace poseidon::comm {

/// Tensors of fewer bytes share chunks with their neighbors. This is also the lowest permitted
/// limit on the bytes of a chunk.
inline constexpr int64_t kSmallBytes = 64 * 1024;
/// The fewest bytes of a piece, if a tensor is divided only to distribute it over all servers.
/// Smaller pieces would cost more processor time, because each frame has a fixed cost.
inline constexpr int64_t kShareBytes = 128 * 1024;
/// Tensors are divided at multiples of this many elements. Plans of earlier versions divide them at
/// multiples of kLeastCutElements.
inline constexpr int64_t kCutElements = 256, kLeastCutElements = 16;

/// The wire format of a tensor's sums; `wire` is the wire format of the plan.
WireFormat wire_format_of(WireFormat wire, const TensorTraffic& tensor);
/// The wire format of a piece's tensor, or of a chunk. All tensors of a chunk have the same wire
/// format.
WireFormat wire_format_of(const Plan& plan, const Piece& piece);
WireFormat wire_format_of(const Plan& plan, const Chunk& chunk);
/// The codecs of a worker's contributions for `part`, of the servers' sums, and of factors. `wire`
/// is the wire format of the plan.
const Codec& contribution_codec(WireFormat wire, const TensorTraffic& tensor, const Part& part);
const Codec& contribution_codec(const Plan& plan, const Chunk& chunk, const Part& part);
const Codec& sum_codec(WireFormat wire, const TensorTraffic& tensor);
const Codec& sum_codec(const Plan& plan, const Chunk& chunk);
const ValueCodec& factor_codec(WireFormat wire);

/// The tensors of `layers` that servers sum, in order; each is one piece that covers the tensor.
std::vector<Piece> ps_tensors(std::span<const LayerPlan> layers);

/// Whether each shard's gradient of a tensor is rounded to integers before it is added.
bool rounds_shards(WireFormat wire, const TensorTraffic& tensor);
bool rounds_shards(const Plan& plan, const Chunk& chunk);

/// Divides tensors of one wire format into chunks of at most `max_bytes` (at least kSmallBytes). A
/// tensor of at least kSmallBytes becomes equal pieces, one for each server. It becomes fewer
/// pieces if they would be smaller than kShareBytes, and more if they would exceed `max_bytes`. So
/// workers that send the same layer at the same time use all servers. Neighbors under kSmallBytes
/// share a chunk until it has that size. With `alone` no tensors share a chunk. The chunks are in
/// order of key and have no server yet.
std::vector<Chunk> cut_chunks(std::span<const Piece> tensors, int64_t servers, int64_t max_bytes,
                              bool alone = false);
/// Divides `tensors` of a plan into chunks for its servers. Tensors of different wire formats share
/// no chunk, and neither do tensors that are sent as int8.
std::vector<Chunk> cut_chunks(const Plan& plan, std::span<const Piece> tensors, int64_t max_bytes);

/// The reason why `piece` cannot be in `chunk`, for a message; "" if it can. All pieces of a chunk
/// have one wire format. A piece that is sent as int8 is alone in its chunk, and begins a block.
std::string fault_in_chunk(const Plan& plan, const Chunk& chunk, const Piece& piece);

/// Assigns a server to each chunk: largest chunk first, each to the server that has the fewest
/// elements so far.
void assign_servers(std::span<Chunk> chunks, int64_t servers);

/// The elements of the fullest server, divided by the mean of all servers; 1 without chunks.
double hottest_over_mean(std::span<const Chunk> chunks, int64_t servers);

/// Adds the bytes of one or more transfers of a chunk to the layers of its pieces. `direction` is
/// LayerBytes::sent or LayerBytes::received.
void count_chunk(const Chunk& chunk, const Codec& codec, uint64_t bytes,
                 std::vector<LayerBytes>& layers, uint64_t LayerBytes::*direction);

}  // namespace poseidon::comm
