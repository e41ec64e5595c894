#include "comm/exchange/exchange_context.h"

#include "comm/wire/slices.h"

namespace poseidon::comm {

void ExchangeContext::send(NodeId to, FrameHeader header, const Payload& whole, uint64_t bytes) {
  const Priority priority =
      bulk_priority(plan.overlap == Overlap::kPriority ? header.key : 0, header.step);
  header.view = options.view;
  for (uint64_t slice = 0; slice < slices_of(bytes); ++slice) {
    header.offset = slice * kSliceBytes;
    header.length = slice_length(bytes, slice);
    Payload payload{.bytes = {}, .owner = whole.owner};
    if (!whole.bytes.empty()) payload.bytes = whole.bytes.subspan(header.offset, header.length);
    outlet.send(to, header, std::move(payload), priority);
  }
  traffic.bytes_sent += bytes;
}

Destination ExchangeContext::repeated() {
  ++traffic.repeated;
  return Destination::dropped();
}

}  // namespace poseidon::comm
