#include "trainer/job/device_list.h"

#include <algorithm>

#include "core/error.h"
#include "trainer/job/config.h"

namespace poseidon::trainer {

namespace {

[[noreturn]] void refuse_device(const std::string& given, const std::string& why) {
  throw ConfigError("--device " + given + ": " + why);
}

/// Parses the number after the colon, as in "cuda:1".
int64_t index_of(const std::string& given, const std::string& number) {
  constexpr size_t kMaxDigits = 3;
  if (number.empty() || number.size() > kMaxDigits ||
      number.find_first_not_of("0123456789") != std::string::npos)
    refuse_device(given,
                  "expected an index >= 0 after \":\", as in cuda:1, got \"" + number + "\"");
  return std::stoll(number);
}

}  // namespace

DeviceList read_device_list(const std::string& given) {
  DeviceList list;
  for (size_t begin = 0; begin <= given.size();) {
    const size_t end = std::min(given.find(',', begin), given.size());
    const std::string device = given.substr(begin, end - begin);
    begin = end + 1;
    const size_t colon = std::min(device.find(':'), device.size());
    const std::string kind = device.substr(0, colon);
    if (std::ranges::find(kDeviceKinds, kind) == kDeviceKinds.end())
      refuse_device(given,
                    "expected cpu, cuda or cuda:INDEX, or a list such as "
                    "cuda:0,cuda:1, got \"" +
                        device + "\"");
    if (!list.kind.empty() && kind != list.kind)
      refuse_device(given, "expected devices of one kind, got " + list.kind + " and " + kind +
                               "; start a separate worker for each kind");
    list.kind = kind;
    list.indices.push_back(colon == device.size() ? 0 : index_of(given, device.substr(colon + 1)));
  }
  return list;
}

}  // namespace poseidon::trainer
