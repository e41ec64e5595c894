#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace poseidon::cpu {

/// Controls how long the threads of OpenMP teams spin while they wait for each other. By default
/// GCC's library lets them spin for milliseconds. Spinning is fastest on an otherwise idle machine.
/// Spinning is slowest on a busy machine, because a spinning thread occupies the core that the
/// awaited thread needs. This object measures the load of the cores in a separate thread. While
/// other processes need the cores, it makes the threads of teams spin for about a microsecond and
/// then sleep. It does nothing if the environment configures the waits (OMP_WAIT_POLICY,
/// GOMP_SPINCOUNT, KMP_BLOCKTIME). Construct it before other threads exist.
class SpinPolicy {
 public:
  SpinPolicy();
  ~SpinPolicy();
  SpinPolicy(const SpinPolicy&) = delete;
  SpinPolicy& operator=(const SpinPolicy&) = delete;

 private:
  void watch(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread watch_;
};

}  // namespace poseidon::cpu
