#include "trainer/coordinator/handover.h"

#include <utility>

#include "trainer/coordinator/coordinator_io.h"
#include "trainer/messages/notes.h"
#include "trainer/state/tensor_store.h"

namespace poseidon::trainer {

void Handover::begin_view(uint32_t view, int64_t step) {
  *this = {};
  view_ = view;
  step_ = step;
}

/// Of those who lack the values none has a lower rank than a worker that has them.
void Handover::ask(uint16_t worker, CoordinatorIo& io) {
  if (values_.are_made()) return values_.send(worker, view_, step_, io);
  waiting_.push_back(worker);
  if (waiting_.size() > 1) return;
  io.post([view = view_, step = step_](CoordinatorSide& side) {
    if (side.coordinator->view() == view) side.coordinator->note(0, write_note(FetchNote{}, step));
  });
}

void Handover::pass_on(TensorStore& store, CoordinatorIo& io) {
  values_.make(store);
  for (const uint16_t worker : std::exchange(waiting_, {})) values_.send(worker, view_, step_, io);
}

}  // namespace poseidon::trainer
