#include "trainer/member/checkpoint_sender.h"

#include "comm/exchange/tensor_intake.h"
#include "trainer/messages/notes.h"

namespace poseidon::trainer {

CheckpointSender::CheckpointSender(comm::AsioTransport& transport, comm::Member& member,
                                   ProgressReporter& progress)
    : transport_(transport), member_(member), progress_(progress), window_(kMostBytesOnTheWay) {}

void CheckpointSender::send(int64_t step, const RunTensors& tensors, int64_t in_flight) {
  progress_.waits("the checkpoint before to be written");
  window_.begin(step);
  sent_step_ = step;
  ++number_;
  const std::vector<const NamedTensor*> all = in_order(tensors, in_flight);
  for (uint32_t place = 0; place < all.size(); ++place) {
    progress_.sign("sending a checkpoint", place, static_cast<int64_t>(all.size()), "tensors");
    send_tensor(step, place, *all[place]);
  }
  const SentCheckpoint sent{
      .number = number_, .in_flight = in_flight, .digest = tensor_digests(tensors, in_flight)};
  transport_.post(
      [this, note = write_note(sent, step)] { member_.coordinator().note_after_bulk(note); });
}

/// There is not room for a copy of all.
void CheckpointSender::send_tensor(int64_t step, uint32_t place, const NamedTensor& tensor) {
  const size_t count = tensor.count();
  std::shared_ptr<float[]> memory = window_.lend(count);
  const std::span values(memory.get(), count);
  tensor.get(values);
  transport_.post([this, place, step, number = number_,
                   payload = comm::Payload{std::as_bytes(values), std::move(memory)}] {
    comm::send_tensor({.view = member_.view(),
                       .step = static_cast<uint64_t>(step),
                       .key = place,
                       .chunk = number},
                      payload, [this](const comm::FrameHeader& header, const comm::Payload& slice) {
                        member_.coordinator().send(header, slice);
                      });
  });
}

void CheckpointSender::wait_until_written() {
  progress_.waits("the last checkpoint to be written");
  window_.wait_until_written();
}

void CheckpointSender::begin_anew() {
  sent_step_ = -1;
  window_.begin_anew();
}

}  // namespace poseidon::trainer
