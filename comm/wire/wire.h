#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "comm/wire/frame_seal.h"

/// The encoding of frames. The format: docs/wire-format.md.
namespace poseidon::comm {

inline constexpr size_t kHeaderBytes = 64;
inline constexpr uint16_t kWireVersion = 2;
/// The longest body of a bulk frame. Bodies travel in slices so that an urgent frame can overtake.
inline constexpr uint64_t kSliceBytes = 256 * 1024;
/// The most bytes of the body of a contribution: a slice of integers of 8 bytes, with a header byte
/// for each 256 of them (comm/wire/integer_blocks.h).
inline constexpr uint64_t kMaxContributionBytes = 2 * kSliceBytes + 256;

/// The longest body of a control frame.
inline constexpr uint64_t kMaxControlBytes = uint64_t{16} << 20;

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
  kContribution = 32,  ///< worker to server: the sum of a chunk over one part
  kSum = 33,           ///< server to worker: the sum over all shards of a chunk
  kFactor = 34,        ///< worker to worker: a logical shard's rows of a layer's factor
  kTensor = 35,        ///< a slice of a tensor: of a checkpoint, or initial values
  kProbe = 36,         ///< meaningless bytes: measures a link, or proves that large messages pass
};

/// A range of logical shards that is one node of the fixed summation tree
/// (comm/plan/shard_parts.h).
struct Part {
  uint32_t first = 0;
  uint32_t count = 0;
  bool operator==(const Part&) const = default;
};

struct FrameHeader {
  FrameKind kind = FrameKind::kHeartbeat;
  uint32_t view = 0;  ///< the membership's view; frames of an older view are dropped
  uint64_t step = 0;  ///< counted from 0
  uint32_t key = 0;   ///< the layer's index in the plan; of a tensor frame: the tensor's index
  /// The chunk's index in the plan. Of a factor: 0 deltas, 1 activations. Of a checkpoint's tensor:
  /// the number by which the sending worker identifies the checkpoint. Of a probe: its purpose.
  uint32_t chunk = 0;
  Part part = {};       ///< the logical shards of a contribution or factor
  uint64_t offset = 0;  ///< of the body: in a chunk or factor in elements, in a tensor in bytes
  uint64_t length = 0;  ///< of the body, in bytes
  uint64_t body_seal = 0;
  bool operator==(const FrameHeader&) const = default;
};

/// Whether bodies of this kind are payload, which is read directly into its destination. Such a
/// body is never empty, because an empty destination means that the body is dropped.
constexpr bool is_bulk(FrameKind kind) { return kind >= FrameKind::kContribution; }
/// Whether frames of this kind come before a connection is authenticated.
constexpr bool is_handshake(FrameKind kind) { return kind <= FrameKind::kRefusal; }

/// The most bytes that a body of this kind may have; nullopt: unknown kind.
std::optional<uint64_t> body_cap(FrameKind kind);
/// The name of a kind in messages: "contribution"; "kind 77" for an unknown kind.
std::string name_of(FrameKind kind);

/// Encodes a header. Computes the header's own seal and copies body_seal.
std::array<std::byte, kHeaderBytes> encode(const FrameHeader& header, FrameSeal& seal);

/// Whether a stream that should begin with a frame begins like TLS, with a greeting or an alert.
bool begins_as_tls(std::span<const std::byte> bytes);

/// A decoded header, or its fault.
struct DecodedHeader {
  FrameHeader header;
  std::string error;  ///< "" if it is valid: "the checksum of a frame's header is wrong"
};
/// Decodes kHeaderBytes bytes. Checks magic, version, seal, kind and length.
DecodedHeader decode(std::span<const std::byte> bytes, FrameSeal& seal);

}  // namespace poseidon::comm
