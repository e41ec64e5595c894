#include "comm/exchange/layer_sum.h"

#include "core/error.h"

namespace poseidon::comm {

void LayerSum::done(uint64_t step, uint64_t count) {
  due(step) -= count;
  while (due(step_) == 0) {
    due(step_) = due_each_step_;
    make_room(step_);
    context_.arrived(step_++, layer_);
  }
}

Destination LayerSum::unwanted(const FrameHeader& header) const {
  return Destination::refused(text("sent a ", name_of(header.kind), " for layer ", header.key,
                                   ", which uses the scheme \"", name_of(plan().scheme), "\""));
}

}  // namespace poseidon::comm
