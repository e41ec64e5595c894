#include "trainer/coordinator/checkpoint_reception.h"

namespace poseidon::trainer {

std::string CheckpointReception::tensor_name(size_t index) const {
  for (const char* key : {"weights", "optimizer", "sums"}) {
    if (!list_.contains(key)) continue;
    if (index < list_[key].size()) return list_[key][index]["name"].get<std::string>();
    index -= list_[key].size();
  }
  return text("tensor ", index);
}

comm::Destination CheckpointReception::destination(uint16_t worker,
                                                   const comm::FrameHeader& header) {
  if (list_.is_null())
    return comm::Destination::refused("sent a tensor before its list of tensors");
  return intake_.destination(worker, header);
}

size_t CheckpointReception::tensors_without_sums() const {
  return list_.is_null() ? 0 : list_.at("weights").size() + list_.at("optimizer").size();
}

comm::Payload CheckpointReception::received(uint16_t worker, const comm::FrameHeader& header) {
  const std::shared_ptr<TensorStore> store = intake_.received(worker);
  if (store == nullptr) return {};
  const comm::Payload tensor = store->entries()[header.key].payload();
  return {tensor.bytes.subspan(header.offset, header.length), tensor.owner};
}

std::shared_ptr<TensorStore> CheckpointReception::take(uint16_t worker, int64_t step,
                                                       const SentCheckpoint& sent) {
  const auto count = [&](TensorStore& store) {
    const RunTensors tensors = store.tensors();
    if (static_cast<size_t>(sent.in_flight) > tensors.sums.size())
      throw ConfigError(text("the checkpoint of step ", step, " carries the sums of ",
                             sent.in_flight, " steps, expected at most ", tensors.sums.size()));
    return in_order(tensors, sent.in_flight).size();
  };
  return intake_.take(worker, static_cast<uint32_t>(sent.number), step, count);
}

}  // namespace poseidon::trainer
