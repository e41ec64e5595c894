// Measures the blocks of integers (comm/wire/integer_blocks.h) and the sparse form of numbers
// (comm/wire/sparse.h) on one core, for comparison with memcpy. Prints GB/s of fp32 values: 4 bytes
// for each element.
//
//   bench_wire SECONDS [ISA]
//       SECONDS of processor time for each operation; ISA as in core/isa.h, "x86-64-v3"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#include "comm/wire/integer_blocks.h"
#include "comm/wire/sparse.h"
#include "core/error.h"
#include "core/isa.h"

namespace {

using namespace poseidon;
using namespace poseidon::comm;

/// Elements of a slice of 256 KiB in fp32. All memory of an operation fits into the L2 cache.
constexpr uint64_t kElements = 65536;

/// Prints the best of 5 rounds of `operate()`, which processes kElements elements.
template <class Operate>
void measure(const std::string& name, double seconds, const Operate& operate) {
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const std::clock_t began = std::clock();
    const auto passed = [&] { return static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC; };
    uint64_t count = 0;
    while (passed() < seconds / 5)
      for (int i = 0; i < 4; ++i, ++count) operate();
    best = std::max(best, static_cast<double>(count) * kElements * sizeof(float) / passed());
  }
  std::cout << std::left << std::setw(36) << name << std::right << std::setw(7) << std::fixed
            << std::setprecision(2) << best / 1e9 << " GB/s\n";
}

std::vector<float> gradients(uint64_t seed, float size) {
  RandomStream random(seed, RandomPurpose::kGeneration, 0, 0);
  std::vector<float> out(kElements);
  for (float& each : out)
    each = size * random.next_uniform(-1, 1) * random.next_uniform() * random.next_uniform();
  return out;
}

/// The sparse form of numbers of `width` bytes, of which `density` percent are not zero.
void run_sparse(double seconds, uint64_t width, uint32_t density) {
  RandomStream random(4, RandomPurpose::kGeneration, 0, 0);
  std::vector<std::byte> numbers(kElements * width), copy(numbers);
  for (uint64_t i = 0; i < kElements; ++i)
    if (random.next_below(100) < density) numbers[i * width] = std::byte{1};
  std::vector<std::byte> sparse(sparse_bytes(numbers, width));
  const std::string what =
      std::string(width == 4 ? "fp32, " : "bf16, ") + std::to_string(density) + "% not zero";
  measure("encode sparse: " + what, seconds, [&] {
    check(sparse_bytes(numbers, width) == sparse.size(), "the length is that of the first call");
    encode_sparse(numbers, width, sparse);
  });
  measure("decode sparse: " + what, seconds, [&] {
    check(is_sparse(sparse, kElements, width), "the form is valid");
    decode_sparse(sparse, width, copy);
  });
}

void run_blocks(double seconds) {
  const RandomStream random(1, RandomPurpose::kGeneration, 2, 3);
  std::vector<float> values = gradients(1, 0.01f);
  std::vector<float> copy(kElements);
  using Blocks = std::vector<std::byte>;
  Blocks a(bytes_of_blocks(kElements, 1)), b(a), rounded(a);
  Blocks sum2(bytes_of_blocks(kElements, 8)), sum3(sum2), sum(sum2);
  encode_blocks(values, 0, random, a.data());
  encode_blocks(gradients(2, 0.05f), 0, random, b.data());
  sum2.resize(add_blocks(a.data(), b.data(), kElements, sum2.data()));
  sum3.resize(add_blocks(sum2.data(), a.data(), kElements, sum3.data()));
  std::cout << "bytes for each element of a sum of 2: "
            << static_cast<double>(sum2.size()) / static_cast<double>(kElements)
            << ", of 3: " << static_cast<double>(sum3.size()) / static_cast<double>(kElements)
            << "\n";

  measure("memcpy", seconds,
          [&] { std::memcpy(copy.data(), values.data(), kElements * sizeof(float)); });
  measure("encode", seconds, [&] { encode_blocks(values, 0, random, rounded.data()); });
  measure("add 1 byte + 1 byte", seconds,
          [&] { add_blocks(a.data(), b.data(), kElements, sum.data()); });
  measure("add sum of 2 + 1 byte", seconds,
          [&] { add_blocks(sum2.data(), a.data(), kElements, sum.data()); });
  measure("round 1 byte", seconds,
          [&] { round_blocks(a.data(), kElements, 0, random, rounded.data()); });
  measure("round sum of 3", seconds,
          [&] { round_blocks(sum3.data(), kElements, 0, random, rounded.data()); });
  measure("decode 1 byte", seconds, [&] { decode_blocks(a.data(), copy); });
  measure("decode sum of 3", seconds, [&] { decode_blocks(sum3.data(), copy); });
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const double seconds = count >= 2 ? std::atof(arguments[1]) : 0;
    if (count > 3 || !(seconds > 0)) {
      std::cerr << "usage: bench_wire SECONDS [ISA]\n";
      return 2;
    }
    if (count == 3) choose_isa(arguments[2]);
    std::cout << name_of(isa()) << "\n";
    run_blocks(seconds);
    for (const uint64_t width : {4, 2})
      for (const uint32_t density : {10, 50, 90, 100}) run_sparse(seconds, width, density);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "bench_wire: " << error.what() << "\n";
    return 1;
  }
}
