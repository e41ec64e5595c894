// Arbitrary bytes as a CIFAR batch: the reader throws RunError, or returns whole records with
// labels in range.

#include <cstdint>
#include <cstdlib>

#include "core/error.h"
#include "data/cifar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace poseidon;
  using namespace poseidon::data;
  const std::span<const std::byte> bytes{reinterpret_cast<const std::byte*>(data), size};
  for (const CifarForm& form : {kCifar10, kCifar100}) {
    try {
      const PixelFile file = parse_cifar(bytes, form, "f");
      if (file.pixels.size() != 3072 * file.labels.size()) std::abort();
      for (uint8_t label : file.labels)
        if (label >= form.classes) std::abort();
    } catch (const RunError&) {
    }
  }
  return 0;
}
