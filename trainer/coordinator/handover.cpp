#include "trainer/coordinator/handover.h"

#include <numeric>

#include "trainer/coordinator/coordinator_io.h"
#include "trainer/messages/notes.h"

namespace poseidon::trainer {

namespace {

/// Has the first worker send its values, and these take them. In the I/O thread.
void hand_over(CoordinatorSide& side, int64_t step, const std::vector<uint16_t>& to) {
  std::vector<size_t> all(side.reception.tensors_without_sums());
  std::iota(all.begin(), all.end(), size_t{0});
  for (const uint16_t worker : to)
    side.coordinator->note(worker,
                           {.about = "values", .step = step, .content = {{"tensors", all}}});
  side.relay.begin(side.coordinator->view(), to);
  side.coordinator->note(0, write_note(FetchNote{}, step));
}

}  // namespace

void Handover::begin_view(uint32_t view, int64_t step, size_t lacking) {
  *this = {};
  view_ = view;
  step_ = step;
  lacking_ = lacking;
}

/// Of those who lack the values none has a lower rank than a worker that has them.
void Handover::ask(uint16_t worker, CoordinatorIo& io) {
  waiting_.push_back(worker);
  if (waiting_.size() != lacking_) return;
  under_way_ = true;
  io.post([view = view_, step = step_, to = waiting_](CoordinatorSide& side) {
    if (side.coordinator->view() == view) hand_over(side, step, to);
  });
}

}  // namespace poseidon::trainer
