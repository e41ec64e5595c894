// Conversion of a weight to its layer's packed order, compared with oneDNN's reorder.

#include "layers/cpu/weight_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "core/buffer.h"

using namespace poseidon;
using namespace poseidon::layers::cpu;

namespace {

using poseidon::cpu::kFloat;

constexpr int kThreads = 3;

struct Case {
  MemoryDesc canonical_order() const {
    return {shape, kFloat, shape.size() == 2 ? FormatTag::oi : FormatTag::oihw};
  }

  Dims shape;  ///< outputs, inputs, kernel
  FormatTag order;
};

/// If blocks of outputs and inputs are whole, our code converts them in pieces. Otherwise oneDNN
/// does.
const std::vector<Case> kCases{
    {{32, 48, 1, 1}, FormatTag::OIhw16i16o},   {{16, 16, 3, 3}, FormatTag::OIhw16i16o},
    {{64, 32, 3, 3}, FormatTag::OIhw16i16o},   {{48, 16, 5, 2}, FormatTag::OIhw16i16o},
    {{128, 256, 3, 3}, FormatTag::OIhw16i16o}, {{20, 24, 3, 3}, FormatTag::OIhw16i16o},
    {{24, 8, 1, 1}, FormatTag::OIhw8i8o},      {{8, 24, 3, 3}, FormatTag::OIhw8i8o},
    {{16, 8, 2, 2}, FormatTag::OIhw8i8o},      {{32, 3, 7, 7}, FormatTag::Ohwi16o},
    {{16, 16, 3, 3}, FormatTag::oihw},         {{32, 32, 3, 3}, FormatTag::OIhw16o16i},
    {{64, 48}, FormatTag::AB16b32a},           {{544, 512}, FormatTag::AB16b32a},
    {{48, 80}, FormatTag::AB16b16a},           {{40, 21}, FormatTag::AB16b32a},
    {{10, 500}, FormatTag::AB16b16a}};

struct Bench {
  explicit Bench(const Case& each)
      : device(kThreads),
        packed_order(each.shape, kFloat, each.order),
        order(device, each.shape, each.canonical_order(), packed_order),
        canonical(static_cast<size_t>(std::accumulate(each.shape.begin(), each.shape.end(),
                                                      int64_t{1}, std::multiplies<>()))),
        packed(packed_order.get_size() / sizeof(float)) {
    std::iota(canonical.begin(), canonical.end(), 1.0f);
    const PreparedReorder reference(device, each.canonical_order(), packed_order);
    reference.run(device, canonical.data(), packed.data());
  }

  cpu::CpuDevice device;
  MemoryDesc packed_order;
  WeightOrder order;
  std::vector<float> canonical, packed;
};

}  // namespace

TEST_CASE("weights are packed and unpacked like in oneDNN's reorder") {
  for (const Case& each : kCases) {
    CAPTURE(each.shape);
    Bench bench(each);
    std::vector<float> packed(bench.packed.size()), canonical(bench.canonical.size());
    bench.order.pack(bench.device, bench.canonical.data(), packed.data());
    CHECK(packed == bench.packed);
    bench.order.unpack(bench.device, packed.data(), canonical.data());
    CHECK(canonical == bench.canonical);
    const Buffer aligned(canonical.size() *
                         sizeof(float));  // aligned, so non-temporal stores are possible
    bench.order.unpack(bench.device, packed.data(), aligned.as<float>().data());
    CHECK(std::ranges::equal(aligned.as<float>(), bench.canonical));
  }
}

TEST_CASE("packing in pieces delivers each element of a weight exactly once") {
  for (const Case& each : kCases) {
    CAPTURE(each.shape);
    Bench bench(each);
    std::vector<float> memory(bench.packed.size()), given(bench.packed.size(), -1);
    size_t count = 0;
    std::mutex mutex;
    bench.order.pack_pieces(bench.device, bench.canonical.data(), memory.data(),
                            [&](int64_t first, std::span<const float> piece) {
                              const std::lock_guard lock(mutex);
                              std::ranges::copy(piece, given.begin() + first);
                              count += piece.size();
                            });
    CHECK(given == bench.packed);
    CHECK(count == given.size());
  }
}
