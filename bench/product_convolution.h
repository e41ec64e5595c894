#pragma once

#include "core/cpu/cpu_device.h"

namespace poseidon::bench {

/// Prints a table that compares Poseidon's products of patches with oneDNN's convolutions.
void compare_convolutions(cpu::CpuDevice& device, int repeats);

}  // namespace poseidon::bench
