#include "comm/membership/state_transfer.h"

namespace poseidon::comm {

void StateTransfer::begin_view(uint32_t view, size_t lacking) {
  view_ = view;
  lacking_ = lacking;
  receivers_.clear();
}

bool StateTransfer::add(uint16_t worker) {
  receivers_.push_back(worker);
  return is_under_way();
}

void StateTransfer::pass_on(uint16_t worker, const FrameHeader& header, const Payload& slice,
                            const Send& send) const {
  if (!is_under_way() || worker != 0 || header.view != view_ || slice.bytes.empty()) return;
  const FrameHeader onward{.kind = FrameKind::kTensor,
                           .view = view_,
                           .key = header.key,
                           .offset = header.offset,
                           .length = header.length};
  for (const uint16_t receiver : receivers_) send(receiver, onward, slice);
}

}  // namespace poseidon::comm
