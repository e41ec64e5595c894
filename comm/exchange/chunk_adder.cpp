#include "comm/exchange/chunk_adder.h"

#include <algorithm>

#include "comm/exchange/integer_sum.h"
#include "comm/plan/chunks.h"
#include "comm/wire/integer_blocks.h"
#include "comm/wire/mutation.h"

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

/// Adds integers exactly, and rounds the complete sum to one byte for each element.
class IntegerAdder final : public ChunkAdder {
 public:
  IntegerAdder(ServerContext& context, const Piece& piece)
      : ChunkAdder({kAnyPart, static_cast<uint64_t>(piece.count)},
                   {rounded_codec(), static_cast<uint64_t>(piece.count)}),
        context_(context),
        first_(static_cast<uint64_t>(piece.first)),
        tensor_(number_of_tensor(context.plan, piece.layer, piece.tensor)) {}

  SliceValues room(const FrameHeader& header) override { return context_.pool.take(header.length); }
  SliceValues decoded(SliceValues body, const FrameHeader& header) override {
    return kAnyPart.is_valid(body->bytes(), contribution().elements_of(header)) ? body : nullptr;
  }
  SliceValues add(SliceValues one, SliceValues other, const FrameHeader& header) override {
    const uint64_t elements = contribution().elements_of(header);
    const SliceValues room = context_.pool.take(bytes_of_blocks(elements, kMaxIntegerBytes));
    const uint64_t bytes =
        add_blocks(one->bytes().data(), other->bytes().data(), elements, room->bytes().data());
    SliceValues sum = context_.pool.take(bytes);
    std::ranges::copy(room->bytes().first(bytes), sum->bytes().begin());
    return sum;
  }
  SliceValues encoded(SliceValues sum, const FrameHeader& header) override {
    const uint64_t elements = contribution().elements_of(header);
    SliceValues rounded = context_.pool.take(bytes_of_blocks(elements, 1));
    const uint64_t step = header.step + (mutated(Mutation::kOtherRounding) ? 1 : 0);
    round_blocks(sum->bytes().data(), elements, first_ + header.offset,
                 rounding_of_sum(context_.options.seed, tensor_, step), rounded->bytes().data());
    return rounded;
  }

 private:
  inline static const Codec& kAnyPart = exact_codec();

  ServerContext& context_;
  const uint64_t first_;   ///< the chunk's first element in its tensor
  const uint32_t tensor_;  ///< number_of_tensor()
};

}  // namespace

std::unique_ptr<ChunkAdder> make_chunk_adder(ServerContext& context, uint32_t chunk) {
  const Chunk& planned = context.plan.chunks[chunk];
  if (rounds_shards(context.plan, planned))
    return std::make_unique<IntegerAdder>(context, planned.pieces[0]);
  const auto elements = static_cast<uint64_t>(planned.elements());
  return std::make_unique<FloatAdder>(context.pool, codec_of(wire_format_of(context.plan, planned)),
                                      elements);
}

}  // namespace poseidon::comm
