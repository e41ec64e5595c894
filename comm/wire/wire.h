#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/wire/frame_seal.h"

/// Frames, as bytes. The format: docs/wire-format.md.
namespace poseidon::comm {

inline constexpr size_t kHeaderBytes = 64;
inline constexpr uint16_t kWireVersion = 2;
/// Bodies of bulk frames are sent in slices of at most this, so that an urgent one can overtake.
inline constexpr uint64_t kSliceBytes = 256 * 1024;

enum class FrameKind : uint16_t {
  // Before a connection is authenticated (comm/wire/handshake.h).
  kHello = 1,
  kChallenge = 2,
  kProof = 3,
  kRefusal = 4,
  // Control: the body is one JSON object (comm/wire/messages.h).
  kControl = 16,
  kHeartbeat = 17,
  // Bulk: the body is a slice of numbers.
  kContribution = 32,  ///< worker to server: a part's sum of a chunk
  kSum = 33,           ///< server to worker: the sum over all shards of a chunk
  kFactor = 34,        ///< worker to worker: rows of a layer's factors, of one logical shard
  kTensor = 35,        ///< a piece of a checkpoint or of first values
  kProbe = 36,         ///< worker to worker: says nothing, its speed is measured
};

/// A range of logical shards that is one node of the fixed tree (comm/plan/shard_parts.h).
struct Part {
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const Part&) const = default;
};

struct FrameHeader {
  FrameKind kind = FrameKind::kHeartbeat;
  uint32_t view = 0;    ///< of the membership; frames of an older one are dropped
  uint64_t step = 0;    ///< counted from 0
  uint32_t key = 0;     ///< layer that the frame counts for, by its place in the plan
  uint32_t chunk = 0;   ///< by its place in the plan; of a factor: 0 deltas, 1 activations
  Part part = {};       ///< of a contribution or factor
  uint64_t offset = 0;  ///< of the body in the chunk, bytes
  uint64_t length = 0;  ///< of the body, bytes
  uint64_t body_seal = 0;
  bool operator==(const FrameHeader&) const = default;
};

/// Whether bodies of this kind are numbers that go to a place of their own. None is empty: its
/// place is where a header is checked against the plan.
constexpr bool is_bulk(FrameKind kind) { return kind >= FrameKind::kContribution; }
/// Whether frames of this kind are for the time before a connection is authenticated.
constexpr bool is_handshake(FrameKind kind) { return kind <= FrameKind::kRefusal; }

/// The most bytes a body of this kind may have; nothing for a kind that is not known.
std::optional<uint64_t> body_cap(FrameKind kind);
/// "contribution", as messages name a kind; "kind 77" for one that is not known.
std::string name_of(FrameKind kind);

/// The header's bytes; its own seal is made here, body_seal is taken as it is.
std::array<std::byte, kHeaderBytes> encode(const FrameHeader& header, FrameSeal& seal);

/// Whether a stream that should begin with a frame begins as TLS does, with a greeting or an alert.
bool begins_as_tls(std::span<const std::byte> bytes);

/// A header that was read, or what is wrong with it.
struct DecodedHeader {
  FrameHeader header;
  std::string error;  ///< "" when it is good: "magic is 0x..., expected ..."
};
/// `bytes` are kHeaderBytes. Checks magic, version, seal, kind and length.
DecodedHeader decode(std::span<const std::byte> bytes, FrameSeal& seal);

}  // namespace poseidon::comm
