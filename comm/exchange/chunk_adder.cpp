#include "comm/exchange/chunk_adder.h"

#include "comm/plan/chunks.h"

namespace poseidon::comm {

namespace {

/// Adds fp32 values.
class FloatAdder final : public ChunkAdder {
 public:
  FloatAdder(SlabPool& pool, const ValueCodec& codec, uint64_t elements)
      : ChunkAdder({codec, elements}, {codec, elements}), pool_(pool), codec_(codec) {}

  SliceValues room(const FrameHeader& header) override { return pool_.take(header.length); }
  SliceValues decoded(SliceValues body, const FrameHeader& header) override {
    if (codec_.copies()) return body;
    SliceValues values = pool_.take(contribution().elements_of(header) * sizeof(float));
    codec_.decode(body->bytes().data(), values->values());
    return values;
  }
  SliceValues add(SliceValues one, SliceValues other, const FrameHeader&) override {
    add_into(one->values(), other->values());
    return one;
  }
  /// Overwrites the sum, because encoded values are no longer than it.
  SliceValues encoded(SliceValues sum, const FrameHeader&) override {
    if (!codec_.copies()) codec_.encode(sum->values(), sum->bytes().data());
    return sum;
  }

 private:
  SlabPool& pool_;
  const ValueCodec& codec_;
};

}  // namespace

std::unique_ptr<ChunkAdder> make_chunk_adder(ServerContext& context, uint32_t chunk) {
  const Chunk& planned = context.plan.chunks[chunk];
  const auto elements = static_cast<uint64_t>(planned.elements());
  return std::make_unique<FloatAdder>(context.pool, codec_of(wire_format_of(context.plan, planned)),
                                      elements);
}

}  // namespace poseidon::comm
