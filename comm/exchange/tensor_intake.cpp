#include "comm/exchange/tensor_intake.h"

#include <algorithm>
#include <numeric>

#include "comm/wire/slices.h"
#include "core/error.h"

namespace poseidon::comm {

TensorIntake::TensorIntake(std::vector<std::span<std::byte>> tensors)
    : tensors_(std::move(tensors)),
      received_slices_(tensors_.size()),
      missing_of_(tensors_.size()) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    received_slices_[i].resize(slices_of(tensors_[i].size()));
    missing_ += missing_of_[i] = received_slices_[i].size();
  }
}

Destination TensorIntake::destination(const FrameHeader& header) {
  open_.reset();
  if (header.kind != FrameKind::kTensor || header.key >= tensors_.size())
    return Destination::refused(text("sent a ", name_of(header.kind), " frame with key ",
                                     header.key, ", expected a key below ", tensors_.size()));
  const std::span<std::byte> memory = tensors_[header.key];
  if (!is_slice_of(header, memory.size()))
    return Destination::refused(text("sent ", header.length, " bytes at offset ", header.offset,
                                     " of tensor ", header.key, ", which has ", memory.size(),
                                     " bytes"));
  const Slice slice{.tensor = header.key, .number = header.offset / kSliceBytes};
  if (received_slices_[slice.tensor][slice.number]) return Destination::dropped();
  open_ = slice;
  return Destination::into(memory.subspan(header.offset, header.length));
}

bool TensorIntake::received() {
  if (!open_) return false;
  received_slices_[open_->tensor][open_->number] = true;
  --missing_of_[open_->tensor];
  --missing_;
  open_.reset();
  return true;
}

uint64_t TensorIntake::missing(size_t tensors) const {
  const auto end =
      missing_of_.begin() + std::min(std::ssize(missing_of_), static_cast<std::ptrdiff_t>(tensors));
  return std::accumulate(missing_of_.begin(), end, uint64_t{0});
}

void send_tensor(const FrameHeader& header, const Payload& tensor, const SendSlice& send) {
  FrameHeader slice = header;
  slice.kind = FrameKind::kTensor;
  for (uint64_t number = 0; number < slices_of(tensor.bytes.size()); ++number) {
    slice.offset = number * kSliceBytes;
    slice.length = slice_length(tensor.bytes.size(), number);
    send(slice, {tensor.bytes.subspan(slice.offset, slice.length), tensor.owner});
  }
}

}  // namespace poseidon::comm
