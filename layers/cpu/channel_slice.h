#pragma once

#include <cstring>

#include "core/tensor.h"
#include "layers/cpu/team_loops.h"

namespace poseidon::layers::cpu {

/// Neighboring channels of a tensor (the whole), stored as another tensor of the same format (the
/// part). In every layout these channels are runs of bytes. The runs are contiguous in the part,
/// and strided in the whole. In blocked layouts the first channel must begin a block. The part's
/// last block must be full, or be the last block of the whole.
class ChannelSlice {
 public:
  ChannelSlice(const Tensor& part, const Tensor& whole, int64_t first_channel)
      : part_(part.as<std::byte>()) {
    const Blocking p = part.blocking(), w = whole.blocking();
    const auto bytes = static_cast<int64_t>(bytes_of(whole.format.type));
    const bool channels_last = whole.format.layout == Layout::kChannelsLast;
    runs_ = channels_last ? p.samples * p.area : p.samples;
    length_ = p.count() / runs_ * bytes;
    stride_ = w.count() / runs_ * bytes;
    start_ = (channels_last ? first_channel : w.offset(0, first_channel, 0)) * bytes;
  }

  /// Copies the part to its channels in the whole.
  void copy_into(ThreadTeam& team, const Tensor& whole) const {
    copy(team, part_, length_, whole.as<std::byte>() + start_, stride_);
  }
  /// Copies these channels of the whole to the part.
  void copy_from(ThreadTeam& team, const Tensor& whole) const {
    copy(team, whole.as<std::byte>() + start_, stride_, part_, length_);
  }

 private:
  void copy(ThreadTeam& team, const std::byte* source, int64_t source_stride, std::byte* target,
            int64_t target_stride) const {
    for_each_item(team, runs_, length_ / 4, [&](int64_t run) {
      std::memcpy(target + run * target_stride, source + run * source_stride,
                  static_cast<size_t>(length_));
    });
  }

  std::byte* part_;
  int64_t runs_, length_, stride_, start_;
};

}  // namespace poseidon::layers::cpu
