#include "comm/wire/kernels/sparse_kernels.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "comm/wire/kernels/sparse_group.h"

namespace poseidon::comm {

namespace {

template <size_t kWidth>
uint64_t count_numbers(const std::byte* numbers, uint64_t elements) {
  using Number = SparseNumber<kWidth>;
  uint64_t count = 0;
  // Counters of 16 bits keep the loop in narrow lanes.
  constexpr uint64_t kRun = 1 << 14;
  for (uint64_t done = 0; done < elements; done += kRun) {
    const uint64_t end = std::min(done + kRun, elements);
    Number of_run = 0;
    for (uint64_t i = done; i < end; ++i) {
      Number number;
      std::memcpy(&number, numbers + i * kWidth, kWidth);
      of_run = static_cast<Number>(of_run + (number != 0));
    }
    count += of_run;
  }
  return count;
}

/// A group of fewer than kGroup numbers, with zeros after them.
template <size_t kWidth>
class PartOfGroup {
 public:
  PartOfGroup(const std::byte* numbers, uint64_t bytes) { std::memcpy(copy_, numbers, bytes); }
  const std::byte* data() const { return copy_; }

 private:
  std::byte copy_[kGroup * kWidth] = {};
};

/// The memory to which a compression writes.
template <size_t kWidth>
class PackedWriter {
 public:
  PackedWriter(std::byte* values, uint64_t bytes) : at_(values), end_(values + bytes) {}

  [[gnu::always_inline]] void write(const SparseGroup<kWidth>& group, unsigned mask) {
    const auto bytes = static_cast<uint64_t>(std::popcount(mask)) * kWidth;
    if (static_cast<uint64_t>(end_ - at_) >= kGroup * kWidth) {
      group.write_packed(mask, at_);
    } else {
      std::byte packed[kGroup * kWidth];
      group.write_packed(mask, packed);
      std::memcpy(at_, packed, bytes);
    }
    at_ += bytes;
  }

 private:
  std::byte* at_;
  std::byte* const end_;
};

template <size_t kWidth>
void compress(const std::byte* numbers, uint64_t elements, std::byte* bitmap, std::byte* values,
              uint64_t bytes) {
  PackedWriter<kWidth> writer(values, bytes);
  const auto add = [&](const std::byte* from) __attribute__((always_inline)) {
    const SparseGroup<kWidth> group(from);
    const unsigned mask = group.mask();
    *bitmap++ = static_cast<std::byte>(mask);
    writer.write(group, mask);
  };
  uint64_t done = 0;
  for (; done + kGroup <= elements; done += kGroup) add(numbers + done * kWidth);
  if (done < elements)
    add(PartOfGroup<kWidth>(numbers + done * kWidth, (elements - done) * kWidth).data());
}

template <size_t kWidth>
void expand(const std::byte* bitmap, const std::byte* values, uint64_t bytes, uint64_t elements,
            std::byte* numbers) {
  const std::byte* const end = values + bytes;
  const auto write_next = [&](std::byte * to) __attribute__((always_inline)) {
    const auto mask = std::to_integer<unsigned>(*bitmap++);
    const auto left = static_cast<uint64_t>(end - values);
    if (left >= kGroup * kWidth)
      SparseGroup<kWidth>(values).write_spread(mask, to);
    else
      SparseGroup<kWidth>(PartOfGroup<kWidth>(values, left).data()).write_spread(mask, to);
    values += static_cast<uint64_t>(std::popcount(mask)) * kWidth;
  };
  uint64_t done = 0;
  for (; done + kGroup <= elements; done += kGroup) write_next(numbers + done * kWidth);
  if (done == elements) return;
  std::byte rest[kGroup * kWidth];
  write_next(rest);
  std::memcpy(numbers + done * kWidth, rest, (elements - done) * kWidth);
}

}  // namespace

namespace POSEIDON_ISA {

template <size_t kWidth>
SparseKernels sparse_kernels() {
  return {count_numbers<kWidth>, compress<kWidth>, expand<kWidth>};
}
template SparseKernels sparse_kernels<2>();
template SparseKernels sparse_kernels<4>();

}  // namespace POSEIDON_ISA

}  // namespace poseidon::comm
