#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

namespace poseidon::cpu {

/// Controls how long the threads of OpenMP teams spin when they wait for each other. By its default
/// GCC's library lets them spin for milliseconds, which is fastest on a machine that has nothing
/// else to do, and the worst on one that has: a thread that spins keeps the core which the thread
/// that it waits for could use. While other processes want the cores too, this object has them spin
/// for a microsecond or so and then sleep. It does nothing where the environment says how to wait.
/// It must be made before there are other threads, and its destructor ends its own.
class TeamWaits {
 public:
  TeamWaits();
  ~TeamWaits();
  TeamWaits(const TeamWaits&) = delete;
  TeamWaits& operator=(const TeamWaits&) = delete;

 private:
  void watch(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any ended_;
  std::jthread watch_;
};

}  // namespace poseidon::cpu
