#pragma once

#include <cstdint>
#include <string>

namespace poseidon::trainer {

/// What computes, as --device names it: "cpu", "cuda", or "cuda:1" for the second GPU.
struct DeviceName {
  std::string type = "cpu";
  int64_t index = 0;  ///< of the machine's GPUs
};

/// Throws ConfigError, naming `option`, for what is none; `expected` says what may be.
DeviceName parse_device(const std::string& option, const std::string& name,
                        const std::string& expected);

}  // namespace poseidon::trainer
