#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace poseidon::trainer {

/// What --device names: the devices of one worker, which are of one kind.
struct DeviceList {
  std::string kind;              ///< "cpu", "cuda", "replay"
  std::vector<int64_t> indices;  ///< one for each device: which of the machine's, from 0
};

/// Reads "cpu", "cuda:1", "cuda:0,cuda:1". Throws ConfigError that names --device.
DeviceList read_device_list(const std::string& given);

}  // namespace poseidon::trainer
