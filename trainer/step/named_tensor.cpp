#include "trainer/step/named_tensor.h"

#include <limits>

namespace poseidon::trainer {

void NamedTensor::read(std::span<float> out) const {
  get(out);
  for (float& value : out) value = value == value ? value : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace poseidon::trainer
