#include "layers/cpu/pass_weight.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <numeric>

#include "core/cpu/instruction_set.h"
#include "tests/support/layer_runner.h"

using namespace poseidon;
using namespace poseidon::layers::cpu;
using poseidon::cpu::FormatTag;
using poseidon::cpu::kFloat;

namespace {

struct Copy {
  Dims shape;
  FormatTag kept, read;
};

void check_copy(const Copy& each, dnnl::memory::data_type type) {
  poseidon::cpu::CpuDevice device(2);
  CAPTURE(std::accumulate(each.shape.begin(), each.shape.end(), int64_t{1}, std::multiplies<>()));
  const MemoryDesc kept(each.shape, kFloat, each.kept), read(each.shape, type, each.read);
  test::Values weight =
      test::random_values(static_cast<int64_t>(kept.get_size() / sizeof(float)), 3);
  for (size_t i = 0; i < weight.size(); i += 5) weight[i] = 1 + static_cast<float>(i) * 0x1p-8F;
  std::vector<std::byte> expected(read.get_size());
  PreparedReorder(device, kept, read).run(device, weight.data(), expected.data());
  const PassWeight own(device, each.shape, kept, read);
  Buffer memory(own.scratch_bytes());
  Scratch scratch(memory.as<std::byte>().data());
  CHECK(std::memcmp(own.get(device, weight.data(), scratch), expected.data(), expected.size()) ==
        0);
}

}  // namespace

TEST_CASE("a weight is rounded to bf16 for a pass like in oneDNN's reorder") {
  if (!poseidon::cpu::has_bf16_products()) return;  // otherwise oneDNN does not use such layouts
  const std::vector<Copy> cases{
      {{32, 48, 3, 3}, FormatTag::OIhw16i16o, FormatTag::OIhw8i16o2i},
      {{64, 32, 1, 1}, FormatTag::OIhw16i16o, FormatTag::OIhw8o16i2o},
      {{2, 16, 32, 3, 3}, FormatTag::gOIhw16i16o, FormatTag::gOIhw8i16o2i},
      {{2, 16, 32, 1, 1}, FormatTag::gOIhw16i16o, FormatTag::gOIhw8o16i2o},
      {{24, 40, 3, 3}, FormatTag::OIhw16i16o, FormatTag::OIhw8i16o2i},  // padded blocks
      {{32, 32, 3, 3}, FormatTag::oihw, FormatTag::OIhw8i16o2i}};
  for (const Copy& each : cases) check_copy(each, dnnl::memory::data_type::bf16);
}

TEST_CASE("a weight is transposed for a pass like in oneDNN's reorder") {
  const std::vector<Copy> cases{
      {{32, 48, 3, 3}, FormatTag::OIhw16i16o, FormatTag::OIhw16o16i},
      {{2, 16, 32, 5, 5}, FormatTag::gOIhw16i16o, FormatTag::gOIhw16o16i},
      {{24, 40, 3, 3}, FormatTag::OIhw8i8o, FormatTag::OIhw8o8i},
      {{2, 8, 16, 1, 1}, FormatTag::gOIhw8i8o, FormatTag::gOIhw8o8i},
      {{24, 40, 3, 3}, FormatTag::OIhw16i16o, FormatTag::OIhw16o16i},  // padded blocks
      {{32, 32, 3, 3}, FormatTag::oihw, FormatTag::OIhw16o16i}};
  for (const Copy& each : cases) check_copy(each, kFloat);
}
