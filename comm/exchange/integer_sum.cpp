#include "comm/exchange/integer_sum.h"

#include <algorithm>
#include <utility>

#include "comm/wire/integer_blocks.h"
#include "comm/wire/slices.h"

namespace poseidon::comm {

namespace {

RandomStream rounding(uint64_t seed, uint32_t tensor, uint64_t step, uint32_t contribution) {
  return {seed, RandomPurpose::kRounding, uint64_t{tensor} << 32 | contribution, step};
}

}  // namespace

uint32_t number_of_tensor(const Plan& plan, uint32_t layer, uint32_t tensor) {
  for (uint32_t before = 0; before < layer; ++before)
    tensor += static_cast<uint32_t>(plan.layers[before].traffic.tensors.size());
  return tensor;
}

RandomStream rounding_of_shard(uint64_t seed, uint32_t tensor, uint64_t step, uint32_t shard) {
  return rounding(seed, tensor, step, shard + 1);
}

RandomStream rounding_of_sum(uint64_t seed, uint32_t tensor, uint64_t step) {
  return rounding(seed, tensor, step, 0);
}

IntegerBlocks rounded_shard(const Plan& plan, uint64_t seed, uint32_t layer, uint32_t tensor,
                            uint64_t step, uint32_t shard, std::span<const float> gradient) {
  auto blocks = std::make_shared<std::vector<std::byte>>(bytes_of_blocks(gradient.size(), 1));
  encode_blocks(gradient, 0,
                rounding_of_shard(seed, number_of_tensor(plan, layer, tensor), step, shard),
                blocks->data());
  return blocks;
}

IntegerSum::IntegerSum(uint64_t first, uint64_t elements)
    : first_(first),
      elements_(elements),
      slices_((elements + kSliceElements - 1) / kSliceElements) {}

void IntegerSum::add(const IntegerBlocks& tensor) {
  ++shards_;
  for (size_t slice = 0; slice < slices_.size(); ++slice) {
    const uint64_t elements = elements_of(slice);
    const auto shard = std::span(*tensor).subspan(
        bytes_of_blocks(first_ + slice * kSliceElements, 1), bytes_of_blocks(elements, 1));
    if (shards_ == 1) {
      slices_[slice] = {shard, tensor};
      continue;
    }
    static thread_local std::vector<std::byte> sum(
        bytes_of_blocks(kSliceElements, kMaxIntegerBytes));
    const uint64_t bytes =
        add_blocks(slices_[slice].bytes.data(), shard.data(), elements, sum.data());
    const auto kept = std::make_shared<const std::vector<std::byte>>(
        sum.begin(), sum.begin() + static_cast<std::ptrdiff_t>(bytes));
    slices_[slice] = {*kept, kept};
  }
}

uint64_t IntegerSum::elements_of(uint64_t slice) const {
  return std::min(kSliceElements, elements_ - slice * kSliceElements);
}

Payload IntegerSum::take(uint64_t slice) {
  shards_ = 0;
  return std::exchange(slices_[slice], {});
}

void IntegerSum::take_rounded(const RandomStream& random, std::span<float> values) {
  std::vector<std::byte> rounded(bytes_of_blocks(kSliceElements, 1));
  for (size_t slice = 0; slice < slices_.size(); ++slice) {
    const uint64_t begin = slice * kSliceElements, elements = elements_of(slice);
    round_blocks(take(slice).bytes.data(), elements, begin, random, rounded.data());
    decode_blocks(rounded.data(), values.subspan(begin, elements));
  }
}

}  // namespace poseidon::comm
