#pragma once

#include <memory>

#include "core/cpu/cpu_device.h"
#include "layers/layer.h"
#include "layers/update.h"
#include "net/net.h"
#include "trainer/job.h"

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

/// Choices as JSON, {"conv1": {"layout": "blocked16", ...}}, and back. Throws ConfigError, also for
/// a layer that the network has not.
Json choices_json(const net::Choices& choices);
net::Choices read_choices(const Json& json, const JsonPlace& place, const net::Network& network);

/// The choices that the job's device.choices names: a file that --tune wrote, or a plan.json. Empty
/// when it names none.
net::Choices choices_of(const Job& job);

}  // namespace poseidon::trainer
