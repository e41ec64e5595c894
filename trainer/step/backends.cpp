#include "trainer/step/backends.h"

#include <algorithm>

#include "layers/cpu/backend.h"
#include "layers/cuda/opener.h"
#include "layers/replay/backend.h"

namespace poseidon::trainer {

namespace {

/// Name of the layer to which an entry's time is added. The time of a reorder (change of memory
/// layout) counts for the layer before it, or for the first layer if it reorders the input.
std::string owner_of(const LayerTimes::Layer& entry, const net::Network& network) {
  constexpr std::string_view kAfter = "reorder after ";
  if (entry.name.starts_with(kAfter)) return entry.name.substr(kAfter.size());
  return entry.type == "reorder" ? network.nodes()[0].definition->name : entry.name;
}

/// Time to rebuild a weight gradient from the factors of the global batch. A rebuild accesses at
/// least as much memory as the computation of the local weight gradient, so it takes at least as
/// long. That time is estimated as half of the backward pass. comm/plan/prediction.cpp predicts
/// with the same rule.
double rebuild_ms(const layers::FactorShape& shape, double backward_ms, const Job& job) {
  const double flop =
      2 * static_cast<double>(shape.multiply_adds) * static_cast<double>(job.config.global_batch());
  const double gflops = job.times->rebuild_gflops();
  return std::max(backward_ms / 2, gflops > 0 ? flop / (gflops * 1e6) : 0);
}

layers::replay::ReplayTimes replay_times(const Job& job) {
  const double scale = static_cast<double>(job.config.shard_batch()) / job.times->batch;
  layers::replay::ReplayTimes times;
  for (const LayerTimes::Layer& entry : job.times->layers) {
    layers::replay::LayerTime& time = times.layers[owner_of(entry, *job.network)];
    time.forward_ms += scale * entry.forward_ms;
    time.backward_ms += scale * entry.backward_ms;
    time.factor_density = std::min(time.factor_density, entry.factor_density);
  }
  double elements = 0;
  for (const net::Node& node : job.network->nodes()) {
    for (const layers::ParameterSpec& spec : node.parameters())
      elements += static_cast<double>(spec.shape.count());
    layers::replay::LayerTime& time = times.layers[node.definition->name];
    if (const auto shape = node.factors())
      time.rebuild_ms = rebuild_ms(*shape, time.backward_ms, job);
  }
  times.update_ms_per_element = job.times->update_ms / elements;
  return times;
}

}  // namespace

layers::cuda::GpuRequest gpu_of(const DeviceConfig& device, size_t number, Log* log) {
  using cuda::Precision;
  const Precision precision = device.precision == kBf16Precision   ? Precision::kBf16
                              : device.precision == kTf32Precision ? Precision::kTf32
                                                                   : Precision::kFp32;
  return {.index = static_cast<int>(device.indices[number]),
          .settings = {.precision = precision,
                       .deterministic = device.deterministic,
                       .graphs = device.graphs ? cuda::Graphs::kUsed : cuda::Graphs::kNone,
                       .log = log}};
}

layers::Backend make_backend(const Job& job, size_t number, Log* log) {
  const DeviceConfig& device = job.device();
  if (device.type == kCudaDevice)
    return layers::cuda::open_library().make_backend(gpu_of(device, number, log));
  if (device.type == kReplayDevice) return layers::replay::make_replay_backend(replay_times(job));
  return layers::cpu::make_cpu_backend(
      static_cast<int>(device.threads_of_each()),
      device.precision == kBf16Precision ? DataType::kBf16 : DataType::kFp32);
}

cuda::GpuList gpus_of_this_machine() { return layers::cuda::open_library().gpus(); }

}  // namespace poseidon::trainer
