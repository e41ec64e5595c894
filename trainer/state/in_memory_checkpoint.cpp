#include "trainer/state/in_memory_checkpoint.h"

#include "core/error.h"

namespace poseidon::trainer {

InMemoryCheckpoint copy_step(const std::string& run, const RunState& state,
                             const RunTensors& tensors) {
  InMemoryCheckpoint step{
      .run = run, .state = state, .tensors = std::make_shared<TensorStore>(tensor_list(tensors))};
  const std::vector<const NamedTensor*> all = in_order(tensors, state.in_flight);
  for (size_t i = 0; i < all.size(); ++i) all[i]->read(step.tensors->entries()[i].values());
  return step;
}

void InMemoryCheckpointStore::keep(InMemoryCheckpoint step, Clock::time_point until) {
  kept_ = std::move(step);
  until_ = until;
}

void InMemoryCheckpointStore::drop(const std::string& run) {
  if (of(run) != nullptr) kept_.reset();
}

std::string InMemoryCheckpointStore::give_up(Clock::time_point now) {
  if (!kept_ || now < until_) return "";
  const int64_t step = kept_->state.step;
  kept_.reset();
  return text("dropped the in-memory checkpoint of step ", step,
              ": its run was not resumed in time");
}

std::chrono::seconds InMemoryCheckpointStore::left(Clock::time_point now) const {
  return kept_ && now < until_ ? std::chrono::ceil<std::chrono::seconds>(until_ - now)
                               : std::chrono::seconds(0);
}

}  // namespace poseidon::trainer
