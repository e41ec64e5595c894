#include "comm/exchange/exchange_context.h"

namespace poseidon::comm {

void ExchangeContext::send(NodeId to, FrameHeader header, const Payload& whole,
                           const EncodedSlices& slices) {
  const Priority priority =
      bulk_priority(plan.overlap == Overlap::kPriority ? header.key : 0, header.step);
  header.view = options.view;
  for (uint64_t slice = 0; slice < slices.count(); ++slice) {
    slices.place(slice, header);
    Payload payload{.bytes = {}, .owner = whole.owner};
    if (!whole.bytes.empty())
      payload.bytes = whole.bytes.subspan(slices.bytes_before(header), header.length);
    outlet.send(to, header, std::move(payload), priority);
  }
  traffic.bytes_sent += slices.bytes();
}

Destination ExchangeContext::repeated() {
  ++traffic.repeated;
  return Destination::dropped();
}

}  // namespace poseidon::comm
