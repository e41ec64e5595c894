#include "comm/exchange/exchange_context.h"

#include <utility>

namespace poseidon::comm {

void ExchangeContext::send_slice(NodeId to, FrameHeader header, Payload slice) {
  header.view = options.view;
  traffic.bytes_sent += header.length;
  const uint32_t key = plan.overlap == Overlap::kPriority ? header.key : 0;
  outlet.send(to, header, std::move(slice), bulk_priority(key, header.step));
}

Destination ExchangeContext::repeated() {
  ++traffic.repeated;
  return Destination::dropped();
}

}  // namespace poseidon::comm
