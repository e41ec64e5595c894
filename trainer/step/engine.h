#pragma once

#include <memory>

#include "core/cpu/cpu_device.h"
#include "layers/layer.h"
#include "layers/update.h"
#include "net/net.h"
#include "trainer/job/job.h"

namespace poseidon::trainer {

/// What computes in this process: the device that the job names, and the job's net on it. Made and
/// used by the compute thread.
class Engine {
 public:
  /// `job` must outlive it. Says the net's warnings. Throws ConfigError; OutOfMemory that names the
  /// layer that wants most, and what would take less.
  Engine(const Job& job, const net::Net::Options& options, Log& log);

  net::Net& net() { return *net_; }
  layers::Updater& updater() { return *updater_; }
  int threads() const { return device_.threads(); }

 private:
  cpu::CpuDevice device_;
  std::unique_ptr<layers::LayerFactory> factory_;
  std::unique_ptr<layers::Updater> updater_;
  std::unique_ptr<net::Net> net_;
};

}  // namespace poseidon::trainer
