#include "trainer/member/checkpoint_sender.h"

#include "comm/exchange/tensor_intake.h"
#include "trainer/member/worker_session.h"
#include "trainer/messages/notes.h"

namespace poseidon::trainer {

CheckpointSender::CheckpointSender(WorkerSession& session, ProgressReporter& progress)
    : session_(session), progress_(progress), window_(kMaxBytesInFlight) {}

void CheckpointSender::send(int64_t step, const RunTensors& tensors, int64_t in_flight) {
  progress_.waits("the previous checkpoint to be written");
  window_.begin(step);
  sent_step_ = step;
  ++number_;
  const std::vector<const NamedTensor*> all = in_order(tensors, in_flight);
  for (uint32_t index = 0; index < all.size(); ++index) {
    progress_.report_activity("sending a checkpoint", index, static_cast<int64_t>(all.size()),
                              "tensors");
    send_tensor(step, index, *all[index]);
  }
  const SentCheckpoint sent{
      .number = number_, .in_flight = in_flight, .digest = tensor_digests(tensors, in_flight)};
  session_.post(
      [this, number = sent.number, note = write_note(sent, step)](WorkerSession& session) {
        if (number > dropped_) session.member().coordinator().note_after_bulk(note);
      });
}

/// Copies one tensor at a time: there may be no memory for a copy of all tensors.
void CheckpointSender::send_tensor(int64_t step, uint32_t index, const NamedTensor& tensor) {
  const size_t count = tensor.count();
  std::shared_ptr<float[]> memory = window_.allocate(count);
  const std::span values(memory.get(), count);
  tensor.read(values);
  session_.post([this, index, step, number = number_.load(),
                 payload = comm::Payload{std::as_bytes(values), std::move(memory)}](
                    WorkerSession& session) {
    if (number <= dropped_) return;
    comm::Member& member = session.member();
    comm::send_tensor(
        {.view = member.view(), .step = static_cast<uint64_t>(step), .key = index, .chunk = number},
        payload, [&](const comm::FrameHeader& header, const comm::Payload& slice) {
          member.coordinator().send(header, slice);
        });
  });
}

void CheckpointSender::wait_until_written() {
  progress_.waits("the last checkpoint to be written");
  window_.wait_until_written();
}

/// The compute thread may still post tensors of this checkpoint after this call. Because of
/// `dropped_`, the I/O thread drops these tensors too.
void CheckpointSender::end() {
  dropped_ = number_;
  window_.end();
}

void CheckpointSender::reopen() {
  sent_step_ = -1;
  window_.reopen();
}

}  // namespace poseidon::trainer
