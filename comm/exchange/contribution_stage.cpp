#include "comm/exchange/contribution_stage.h"

#include "comm/plan/chunks.h"

namespace poseidon::comm {

namespace {

/// A slot for each step in flight and each own part.
class Slots {
 public:
  explicit Slots(const ExchangeContext& context)
      : steps_(steps_in_flight(context.plan)), parts_(context.parts.size()) {}

  size_t count() const { return steps_ * parts_; }
  size_t index(uint64_t step, size_t own) const { return step % steps_ * parts_ + own; }

 private:
  size_t steps_, parts_;
};

/// fp32 values, each encoded alone. A direct chunk stays in the memory of its tensor.
class ValueStage final : public ContributionStage {
 public:
  ValueStage(const ExchangeContext& context, const Chunk& chunk)
      : chunk_(chunk),
        codec_(codec_of(wire_format_of(context.plan, chunk))),
        slices_(codec_, static_cast<uint64_t>(chunk.elements())),
        direct_(is_direct(context.plan, chunk)),
        slots_(context),
        wire_(slots_.count()),
        staged_(direct_ ? 0 : slots_.count(), std::vector<std::byte>(slices_.bytes())) {}

  void add(size_t own, size_t piece, const Contribution& contribution) override {
    const size_t slot = slots_.index(contribution.step, own);
    const std::span<const float> values = elements_of(contribution.values, chunk_.pieces[piece]);
    if (direct_) {
      wire_[slot] = std::as_bytes(values);
      return;
    }
    std::byte* wire = staged_[slot].data();
    for (size_t p = 0; p < piece; ++p)
      wire += codec_.bytes(static_cast<uint64_t>(chunk_.pieces[p].count));
    codec_.encode(values, wire);
    wire_[slot] = staged_[slot];
  }
  Payload slice(size_t own, const FrameHeader& header) override {
    const std::span<const std::byte> wire = wire_[slots_.index(header.step, own)];
    return {wire.subspan(slices_.bytes_before(header), header.length), nullptr};
  }

 private:
  const Chunk& chunk_;
  const ValueCodec& codec_;
  const EncodedSlices slices_;
  const bool direct_;
  const Slots slots_;
  std::vector<std::span<const std::byte>> wire_;  ///< by slot: the encoded chunk
  std::vector<std::vector<std::byte>> staged_;    ///< by slot; empty if direct
};

/// Integers: the exact sum of the rounded gradients of a part's shards. The chunk has one piece.
class IntegerStage final : public ContributionStage {
 public:
  IntegerStage(ExchangeContext& context, const Piece& piece)
      : counts_(context.bytes_of_layer[piece.layer].rounded),
        first_(static_cast<uint64_t>(piece.first)),
        elements_(static_cast<uint64_t>(piece.count)),
        slots_(context),
        sums_(slots_.count(), IntegerSum(first_, elements_)) {}

  void add(size_t own, size_t, const Contribution& contribution) override {
    counts_ += count_blocks(contribution.rounded->data() + bytes_of_blocks(first_, 1), elements_);
    sums_[slots_.index(contribution.step, own)].add(contribution.rounded);
  }
  Payload slice(size_t own, const FrameHeader& header) override {
    return sums_[slots_.index(header.step, own)].take(EncodedSlices::index_of(header));
  }

 private:
  BlockCounts& counts_;
  const uint64_t first_, elements_;  ///< the run of the piece in its tensor
  const Slots slots_;
  std::vector<IntegerSum> sums_;  ///< by slot
};

}  // namespace

bool is_direct(const Plan& plan, const Chunk& chunk) {
  return chunk.pieces.size() == 1 && sum_codec(plan, chunk).copies();
}

std::unique_ptr<ContributionStage> make_contribution_stage(ExchangeContext& context,
                                                           const Chunk& chunk) {
  if (rounds_shards(context.plan, chunk))
    return std::make_unique<IntegerStage>(context, chunk.pieces[0]);
  return std::make_unique<ValueStage>(context, chunk);
}

}  // namespace poseidon::comm
