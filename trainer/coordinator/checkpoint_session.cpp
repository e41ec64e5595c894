#include "trainer/coordinator/checkpoint_session.h"

#include <numeric>

#include "core/error.h"

namespace poseidon::trainer {

void CheckpointSession::agreed(int64_t step, const std::vector<int64_t>& digest) {
  setting_.inbox.post([this, step, digest] { setting_.records.agreed(step, digest); });
}

bool CheckpointSession::wants_checkpoint(int64_t step) {
  return !diverged_ && setting_.records.checkpoints().wants(step);
}

void CheckpointSession::not_saved(uint16_t worker, const std::string& why) {
  setting_.warn(text("worker ", worker, " cannot send a checkpoint: ", why));
}

void CheckpointSession::received(uint16_t worker, const comm::FrameHeader& header) {
  const comm::Payload slice = side_.reception.received(worker, header);
  side_.state_transfer.pass_on(
      worker, header, slice,
      [this](uint16_t to, const comm::FrameHeader& onward, const comm::Payload& same) {
        side_.coordinator->send(to, onward, same);
      });
}

void CheckpointSession::transfer_state_to(uint16_t worker) {
  if (side_.is_between_views() || !side_.state_transfer.add(worker)) return;
  const int64_t step = side_.plan.published().first_step;
  ValuesNote all;
  all.tensors.resize(side_.reception.tensors_without_sums());
  std::iota(all.tensors.begin(), all.tensors.end(), int64_t{0});
  for (const uint16_t receiver : side_.state_transfer.receivers())
    side_.coordinator->note(receiver, write_note(all, step));
  side_.coordinator->note(0, write_note(FetchNote{}, step));
}

void CheckpointSession::take(uint16_t worker, const comm::Note& note) {
  if (side_.kept.is_too_late(worker, note.step)) return;
  const auto sent = read_note<SentCheckpoint>(note);
  auto tensors = side_.reception.take(worker, note.step, sent);
  if (side_.state_transfer.is_under_way()) {
    side_.state_transfer.end();
    return side_.coordinator->note(worker, write_note(WrittenNote{}, note.step));
  }
  if (const CheckpointOfferNote* kept = side_.kept.asked_of(worker, note.step))
    return setting_.inbox.post(
        [this, worker, state = kept->state, tensors = std::move(tensors), sent] {
          setting_.records.write_memory_checkpoint(worker, state, *tensors, sent);
        });
  if (!side_.plan.is_decided()) throw ConfigError("a checkpoint that was not requested");
  setting_.inbox.post([this, worker, step = note.step, tensors = std::move(tensors), sent] {
    setting_.records.take_checkpoint(worker, step, tensors, sent);
  });
}

}  // namespace poseidon::trainer
