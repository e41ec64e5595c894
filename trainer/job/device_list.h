#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace poseidon::trainer {

/// Value of --device: the devices of one worker, all of one kind.
struct DeviceList {
  std::string kind;              ///< "cpu", "cuda", "replay"
  std::vector<int64_t> indices;  ///< by device: its index on the machine, from 0
};

/// Parses "cpu", "cuda:1", "cuda:0,cuda:1". Throws ConfigError, which names --device.
DeviceList read_device_list(const std::string& given);

}  // namespace poseidon::trainer
