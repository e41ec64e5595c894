#include "core/cpu/cpu_device.h"

#include <omp.h>
#include <sched.h>

namespace poseidon::cpu {

namespace {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : omp_get_num_procs();
}

}  // namespace

CpuDevice::CpuDevice(int threads)
    : threads_(threads > 0 ? threads : usable_cores()),
      engine_(dnnl::engine::kind::cpu, 0),
      stream_(engine_),
      blocked_(__builtin_cpu_supports("avx512f") != 0 ? Layout::kBlocked16 : Layout::kBlocked8) {
  omp_set_num_threads(threads_);
}

}  // namespace poseidon::cpu
