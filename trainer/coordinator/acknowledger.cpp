#include "trainer/coordinator/acknowledger.h"

#include "trainer/coordinator/coordinator_io.h"

namespace poseidon::trainer {

namespace {
constexpr auto kBetweenAcknowledgements = std::chrono::seconds(1);
}  // namespace

void Acknowledger::recorded(int64_t step, uint32_t view, int64_t workers) {
  const auto now = std::chrono::steady_clock::now();
  if (now - told_ < kBetweenAcknowledgements) return;
  told_ = now;
  io_.post([step, view, workers](CoordinatorSide& io) {
    if (io.coordinator->view() != view) return;
    for (int64_t worker = 0; worker < workers; ++worker)
      io.coordinator->note(static_cast<uint16_t>(worker), write_note(RecordedNote{}, step));
  });
}

}  // namespace poseidon::trainer
