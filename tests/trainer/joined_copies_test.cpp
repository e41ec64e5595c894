#include "trainer/step/joined_copies.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/cpu/cpu_device.h"
#include "trainer/step/tensor_slots.h"

using namespace poseidon;
using namespace poseidon::trainer;

namespace {

/// Records the size of each copy, in floats.
class CopyRecorder final : public cpu::CpuDevice {
 public:
  CopyRecorder() : CpuDevice(1) {}
  using Device::copy;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override {
    CpuDevice::copy(from, to);
    floats.push_back(from.size() / sizeof(float));
  }
  std::vector<size_t> floats;
};

}  // namespace

TEST_CASE("copies of neighbors at both ends are joined, with the padding between them") {
  CopyRecorder device;
  const std::vector<size_t> sizes{3, 20, 16, 5};
  const TensorSlots from(device, sizes, 1), to(device, sizes, 1);
  JoinedCopies copies(device);
  for (const uint32_t tensor : {0, 1, 3, 2}) {
    for (float& value : from.of(tensor, 0)) value = static_cast<float>(tensor + 1);
    copies.add(from.of(tensor, 0), to.of(tensor, 0));
  }
  copies.issue();
  CHECK(device.floats == std::vector<size_t>{16 + 20, 5, 16});
  for (uint32_t tensor = 0; tensor < 4; ++tensor)
    for (const float value : to.of(tensor, 0)) CHECK(value == static_cast<float>(tensor + 1));
  copies.issue();
  CHECK(device.floats.size() == 3);
}

TEST_CASE("copies of tensors that are neighbors at one end only are not joined") {
  CopyRecorder device;
  const std::vector<size_t> sizes{16, 16}, apart{16, 1, 16};
  const TensorSlots near(device, sizes, 1), far(device, apart, 1);
  for (const auto& [from, to] : {std::pair(&near, &far), std::pair(&far, &near)}) {
    JoinedCopies copies(device);
    copies.add(from->of(0, 0), to->of(0, 0));
    copies.add(from->of(from == &far ? 2 : 1, 0), to->of(to == &far ? 2 : 1, 0));
    copies.issue();
  }
  CHECK(device.floats == std::vector<size_t>{16, 16, 16, 16});
}

TEST_CASE("slots: each step in flight has separate memory, and some tensors have none") {
  CopyRecorder device;
  const std::vector<size_t> sizes{3, 0, 20};
  const TensorSlots slots(device, sizes, 2);
  CHECK(TensorSlots::bytes(sizes, 2) == 2 * (16 + 32) * sizeof(float));
  CHECK(slots.has(0));
  CHECK(!slots.has(1));
  CHECK(slots.of(2, 4).data() == slots.of(0, 4).data() + 16);
  CHECK(slots.of(2, 4).data() == slots.of(2, 6).data());
  CHECK(slots.of(2, 4).data() != slots.of(2, 5).data());
  CHECK(slots.of(2, 4).size() == 20);
}
