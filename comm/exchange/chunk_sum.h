#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/exchange/contribution_stage.h"
#include "comm/exchange/exchange_context.h"
#include "comm/wire/codec.h"
#include "comm/wire/outlet.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

/// The owner of one piece of a chunk. It is notified when the piece is summed.
class PieceOwner {
 public:
  virtual ~PieceOwner() = default;
  virtual void piece_summed(uint64_t step) = 0;
};

/// One chunk of the plan on a worker. For each of the worker's parts, it assembles the chunk's
/// pieces and sends them to the chunk's server. It receives the sums, and reports them to the
/// layers that own the pieces. Several small layers may share one chunk.
class ChunkSum {
 public:
  /// `context` must outlive this object.
  ChunkSum(ExchangeContext& context, uint32_t index);

  /// Sets the owner of a piece. Every piece must have an owner before the first contribution.
  void set_owner(size_t piece, PieceOwner& owner) { owners_[piece] = &owner; }
  /// Adds a contribution to one piece. It belongs to one of the worker's parts, whose index in
  /// ExchangeContext::parts is `own`.
  void contribute(size_t own, size_t piece, const Contribution& contribution);
  Destination destination(NodeId from, const FrameHeader& header);
  /// Returns the reason to reject the body, or "".
  std::string received(const FrameHeader& header);

  uint32_t server() const { return server_; }
  /// The first step whose sum has not arrived completely.
  uint64_t step() const { return step_; }

 private:
  /// The chunk in one of the steps in flight.
  struct Step {
    SliceSet received = {};
    size_t parts_sent = 0;
    std::vector<size_t> due = {};     ///< for each own part: contributions not made yet
    std::vector<std::byte> sum = {};  ///< the received sum, encoded; empty if direct
  };

  Step& at(uint64_t step) { return window_[step % window_.size()]; }
  bool carries_payload() const { return context_.options.carries_payload; }
  size_t contributions_to(size_t own) const;
  void send(uint64_t step, size_t own);
  std::string fault_of(NodeId from, const FrameHeader& header) const;
  std::span<std::byte> memory_of(const FrameHeader& header);
  bool unpack(uint64_t step);
  void finish_step();

  // These members are adjacent, because each frame uses them.
  uint64_t step_;
  uint64_t sent_;             ///< the first step without this worker's complete contribution
  std::vector<Step> window_;  ///< steps from step_ on, by step modulo the window's size
  ExchangeContext& context_;
  const Chunk& chunk_;
  const uint32_t server_, index_;
  const EncodedSlices sum_;
  const bool direct_;  ///< sent from, and received into, the memory of the only piece's tensor
  const bool counts_;  ///< whether its bytes are traffic: its server is on another host
  std::unique_ptr<ContributionStage> stage_;  ///< null without payload
  std::vector<PieceOwner*> owners_;           ///< by piece
};

/// Bytes of the memory in which a worker that contributes `parts` assembles chunks and receives
/// sums. Chunks that are sent from the tensors' memory and received into it need none.
uint64_t staging_bytes(const Plan& plan, std::span<const Part> parts);

}  // namespace poseidon::comm
