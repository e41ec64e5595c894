#include "trainer/job/device_name.h"

#include <charconv>

#include "core/error.h"
#include "trainer/job/config.h"

namespace poseidon::trainer {

DeviceName parse_device(const std::string& option, const std::string& name,
                        const std::string& expected) {
  const size_t colon = name.find(':');
  DeviceName device{.type = name.substr(0, colon)};
  if (colon == std::string::npos) return device;
  const char* const end = name.data() + name.size();
  const auto [read, fault] = std::from_chars(name.data() + colon + 1, end, device.index);
  if (device.type != kCudaDevice || fault != std::errc{} || read != end || device.index < 0)
    throw ConfigError(text(option, " ", name, ": expected ", expected));
  return device;
}

}  // namespace poseidon::trainer
