#include "layers/cpu/bias_gradient.h"

#include <algorithm>

#include "layers/cpu/team_loops.h"
#include "layers/cpu/vectors.h"

namespace poseidon::layers::cpu {

namespace {

/// The maximum number of channels that a thread sums at the same time.
constexpr int64_t kLanesOfSum = 16;

/// Sums `lanes` channels of one block, at most kLanesOfSum, from `channel` on, on one thread.
template <class Element>
[[gnu::always_inline]] inline void sum_lanes(const Element* y, const Blocking& b, int64_t channel,
                                             int64_t lanes, float* sums) {
  double lane_sums[kLanesOfSum] = {};
  for (int64_t n = 0; n < b.samples; ++n) {
    const Element* plane = y + b.offset(n, channel, 0);
    for (int64_t position = 0; position < b.area; ++position)
      for (int64_t lane = 0; lane < lanes; ++lane)
        lane_sums[lane] +=
            static_cast<double>(static_cast<float>(plane[position * b.block + lane]));
  }
  for (int64_t lane = 0; lane < lanes; ++lane)
    sums[channel + lane] = static_cast<float>(lane_sums[lane]);
}

/// Sums the channels of one block from `channel` on, at most kLanesOfSum.
template <class Element>
void sum_channels(const Element* y, const Blocking& b, int64_t channel, float* sums) {
  const int64_t lanes = std::min({kLanesOfSum, b.block - channel % b.block, b.channels - channel});
  if (lanes == kLanesOfSum)
    sum_lanes(y, b, channel, kLanesOfSum, sums);  // the compiler unrolls the loop over lanes
  else
    sum_lanes(y, b, channel, lanes, sums);
}

}  // namespace

void sum_bias_gradient(ThreadTeam& team, const Tensor& gradient, float* sums) {
  const Blocking b = gradient.blocking();
  const int64_t each = std::min(kLanesOfSum, b.block);
  const int64_t groups = (b.block + each - 1) / each;
  with_element_of(gradient.format.type, [&](auto element) {
    const auto* y = gradient.as<decltype(element)>();
    for_each_pair(team, b.blocks, groups, each * b.samples * b.area,
                  [&](int64_t block, int64_t group) {
                    const int64_t channel = block * b.block + group * each;
                    if (channel < b.channels) sum_channels(y, b, channel, sums);
                  });
  });
}

}  // namespace poseidon::layers::cpu
