// The sparse form of numbers: bytes of all instruction sets, compared with a slow computation;
// special values; hostile bytes.

#include "comm/wire/sparse.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "comm/wire/slices.h"
#include "core/philox.h"
#include "tests/support/isas.h"

using namespace poseidon;
using namespace poseidon::comm;

namespace {

using Form = std::vector<std::byte>;

/// Numbers of `width` bytes. `density` percent of them are not zero.
Form random_numbers(uint64_t elements, uint64_t width, uint32_t density, RandomStream& random) {
  Form numbers(elements * width);
  for (uint64_t i = 0; i < elements; ++i) {
    if (random.next_below(100) >= density) continue;
    const uint32_t word = random.next_word() | 0x10000U << random.next_below(16);
    std::memcpy(numbers.data() + i * width, reinterpret_cast<const char*>(&word) + 4 - width,
                width);
  }
  return numbers;
}

bool is_zero(const Form& numbers, uint64_t width, uint64_t i) {
  return std::all_of(numbers.begin() + static_cast<int64_t>(i * width),
                     numbers.begin() + static_cast<int64_t>((i + 1) * width),
                     [](std::byte byte) { return byte == std::byte{0}; });
}

Form slow_form(const Form& numbers, uint64_t width) {
  const uint64_t elements = numbers.size() / width;
  Form form((elements + 7) / 8);
  for (uint64_t i = 0; i < elements; ++i) {
    if (is_zero(numbers, width, i)) continue;
    form[i / 8] |= static_cast<std::byte>(1 << i % 8);
    for (uint64_t k = 0; k < width; ++k) form.push_back(numbers[i * width + k]);
  }
  return form;
}

/// Memory at an odd address between bytes that must not change.
class Guarded {
 public:
  explicit Guarded(uint64_t bytes) : memory_(bytes + 2 * kGuard, kMark), bytes_(bytes) {}

  std::span<std::byte> span() { return std::span(memory_).subspan(kGuard, bytes_); }
  Form content() const {
    const auto begin = memory_.begin() + kGuard, end = memory_.end() - kGuard;
    const auto marked = [](std::byte byte) { return byte == kMark; };
    CHECK(std::all_of(memory_.begin(), begin, marked));
    CHECK(std::all_of(end, memory_.end(), marked));
    return {begin, end};
  }

 private:
  static constexpr int64_t kGuard = 65;
  static constexpr std::byte kMark{0xa5};
  Form memory_;
  uint64_t bytes_;
};

Form encoded_form(const Form& numbers, uint64_t width) {
  Guarded form(sparse_bytes(numbers, width));
  encode_sparse(numbers, width, form.span());
  return form.content();
}

Form decoded_form(const Form& form, uint64_t elements, uint64_t width) {
  Guarded numbers(elements * width);
  decode_sparse(form, width, numbers.span());
  return numbers.content();
}

void check_form(const Form& numbers, uint64_t width) {
  const uint64_t elements = numbers.size() / width;
  const Form form = encoded_form(numbers, width);
  CHECK(form == slow_form(numbers, width));
  CHECK(is_sparse(form, elements, width));
  CHECK(may_be_sparse(form.size(), elements, width) == (form.size() < numbers.size()));
  CHECK(decoded_form(form, elements, width) == numbers);
}

template <class Number>
Form bytes_of_numbers(const std::vector<Number>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("sparse: numbers of all lengths and densities have the form of a slow computation") {
  for_each_isa([] {
    RandomStream random(1, RandomPurpose::kGeneration, 0, 0);
    for (const uint64_t width : {2, 4}) {
      for (uint32_t elements = 1; elements <= 300; ++elements)
        for (uint32_t density = elements % 10; density <= 100; density += 10)
          check_form(random_numbers(elements, width, density, random), width);
      for (const uint64_t elements : {7, 8, 9, 255, 256})
        for (const uint32_t density : {0, 100})
          check_form(random_numbers(elements, width, density, random), width);
    }
  });
}

TEST_CASE("sparse: numbers of a slice have the form of a slow computation") {
  for_each_isa([] {
    RandomStream random(2, RandomPurpose::kGeneration, 0, 0);
    for (const uint64_t width : {2, 4})
      for (const uint32_t density : {0, 3, 50, 98, 100})
        check_form(random_numbers(kSliceElements, width, density, random), width);
  });
}

TEST_CASE("sparse: only a number without a set bit is zero; all others keep their bits") {
  // -0.0, denormals, infinities, quiet and signaling NaN with payloads.
  const std::vector<uint32_t> fp32{0,          0x80000000, 1,          0x80000001, 0x007fffff,
                                   0x7f800000, 0xff800000, 0x7f800001, 0xffc12345, 0x7fffffff,
                                   0xffffffff, 0,          0x00010000, 0x00000100};
  const std::vector<uint16_t> bf16{0,      0x8000, 1,      0x8001, 0x7f80, 0xff80,
                                   0x7f81, 0xffff, 0x0100, 0x0080, 0};
  for_each_isa([&] {
    check_form(bytes_of_numbers(fp32), 4);
    check_form(bytes_of_numbers(bf16), 2);
    CHECK(encoded_form(bytes_of_numbers(fp32), 4).size() == 2 + 12 * 4);
    CHECK(encoded_form(bytes_of_numbers(bf16), 2).size() == 2 + 9 * 2);
  });
}

TEST_CASE("sparse: a form that is not shorter, or ends within a number, has no valid length") {
  for (const uint64_t width : {2, 4}) {
    CHECK(may_be_sparse(1, 8, width));
    CHECK(may_be_sparse(1 + 7 * width, 8, width));
    for (const uint64_t length : {uint64_t{0}, 2 * width, 8 * width, 1 + 8 * width, ~uint64_t{0}})
      CHECK_FALSE(may_be_sparse(length, 8, width));
    CHECK_FALSE(may_be_sparse(1, 9, width));
    CHECK(may_be_sparse(1, 1, width));
    CHECK_FALSE(may_be_sparse(1 + width, 1, width));
  }
}

TEST_CASE("sparse: a bitmap with a wrong number of bits, or bits after the numbers, is refused") {
  const auto form = [](std::initializer_list<int> bytes) {
    Form out;
    for (const int byte : bytes) out.push_back(static_cast<std::byte>(byte));
    return out;
  };
  CHECK(is_sparse(form({0x00, 0x00}), 12, 4));
  CHECK(is_sparse(form({0x80, 0x08, 1, 2, 3, 4}), 12, 2));
  CHECK_FALSE(is_sparse(form({0x80, 0x18, 1, 2, 3, 4}), 12, 2));
  CHECK_FALSE(is_sparse(form({0x80, 0x00, 1, 2, 3, 4}), 12, 2));
  CHECK_FALSE(is_sparse(form({0x80, 0x10, 1, 2, 3, 4}), 12, 2));
  CHECK_FALSE(is_sparse(form({0x00, 0x80}), 12, 4));
}

TEST_CASE("sparse: hostile forms are refused, or decoded without access outside the memory") {
  for_each_isa([] {
    RandomStream random(5, RandomPurpose::kGeneration, 0, 0);
    uint64_t accepted = 0;
    for (int round = 0; round < 4000; ++round) {
      const uint64_t width = random.next_below(2) == 0 ? 2 : 4;
      const uint64_t elements = 1 + random.next_below(40);
      const uint64_t before = bytes_of_bitmap(elements);
      Form form(before + random.next_below(static_cast<uint32_t>(elements)) * width);
      for (std::byte& byte : form) byte = static_cast<std::byte>(random.next_word());
      if (!may_be_sparse(form.size(), elements, width) || !is_sparse(form, elements, width))
        continue;
      ++accepted;
      CHECK(encoded_form(decoded_form(form, elements, width), width).size() <= form.size());
    }
    CHECK(accepted > 50);
  });
}
