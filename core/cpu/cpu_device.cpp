#include "core/cpu/cpu_device.h"

#include <omp.h>

#include <algorithm>

#include "core/cores.h"

namespace poseidon::cpu {

CpuDevice::CpuDevice(int threads)
    : threads_(threads > 0 ? threads : available_cores()),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      blocked_(__builtin_cpu_supports("avx512f") != 0 ? Layout::kBlocked16 : Layout::kBlocked8) {
  omp_set_num_threads(threads_);
}

void CpuDevice::copy(std::span<const float> from, std::span<float> to) {
  std::ranges::copy(from, to.begin());
}

void CpuDevice::write(std::span<const std::byte> host, std::span<std::byte> to) {
  std::ranges::copy(host, to.begin());
}

}  // namespace poseidon::cpu
