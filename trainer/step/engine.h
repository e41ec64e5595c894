#pragma once

#include <memory>

#include "layers/backend.h"
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
  /// The same on another device than the job's.
  Engine(layers::Backend backend, const Job& job, const net::Net::Options& options, Log& log);

  net::Net& net() { return *net_; }
  layers::Updater& updater() { return *backend_.updater; }
  int threads() const { return backend_.device->threads(); }

 private:
  layers::Backend backend_;
  std::unique_ptr<net::Net> net_;
};

}  // namespace poseidon::trainer
