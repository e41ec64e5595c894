#include "trainer/coordinator/value_relay.h"

#include <utility>

namespace poseidon::trainer {

void ValueRelay::begin(uint32_t view, std::vector<uint16_t> to) {
  view_ = view;
  to_ = std::move(to);
}

void ValueRelay::take(uint16_t worker, const comm::FrameHeader& header, const comm::Payload& slice,
                      const Send& send) const {
  if (worker != 0 || header.view != view_ || slice.bytes.empty()) return;
  const comm::FrameHeader onward{.kind = comm::FrameKind::kTensor,
                                 .view = view_,
                                 .key = header.key,
                                 .offset = header.offset,
                                 .length = header.length};
  for (const uint16_t to : to_) send(to, onward, slice);
}

}  // namespace poseidon::trainer
