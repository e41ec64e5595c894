#pragma once

#include "core/cpu/cpu_device.h"

namespace poseidon::bench {

/// Compare the passes of linear layers with oneDNN's, and print a table for each pass. oneDNN reads
/// the weight in the memory format that it chooses for the pass.
void compare_linear_forward(cpu::CpuDevice& device, int repeats);
void compare_linear_backward_data(cpu::CpuDevice& device, int repeats);

}  // namespace poseidon::bench
