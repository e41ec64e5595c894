#pragma once

#include <dnnl.hpp>

#include "core/cpu/thread_team.h"
#include "core/device.h"
#include "core/memory.h"
#include "core/tensor.h"

namespace poseidon::cpu {

/// The CPU as a compute device. A call returns after its work is done. CpuDevice owns the oneDNN
/// engine and stream, and the threads that compute. oneDNN's primitives run in the calling thread.
/// All layers of a net share one device.
class CpuDevice : public Device {
 public:
  /// `threads` 0: all cores that the system allows (core/cores.h). Limits OpenMP to one thread in
  /// calls of the calling thread. `activations`: storage type of activations in layers that support
  /// several types.
  explicit CpuDevice(int threads, DataType activations = DataType::kFp32);

  dnnl::engine& engine() { return engine_; }
  dnnl::stream& stream() { return stream_; }
  int threads() const override { return team_.threads(); }
  /// Runs tasks for the compute thread.
  ThreadTeam& team() { return team_; }

  Buffer allocate(size_t bytes, MemoryKind, std::string_view purpose) override {
    return Buffer(bytes, purpose);
  }
  size_t available() const override { return available_memory("/"); }
  bool shares_memory() const override { return true; }
  using Device::copy;
  void copy(std::span<const std::byte> from, std::span<std::byte> to) override;
  void read(std::span<const std::byte> from, std::span<std::byte> host) override {
    write(from, host);
  }
  void write(std::span<const std::byte> host, std::span<std::byte> to) override;
  Event record() override { return {}; }

  /// The blocked layout for this instruction set: 16 channels per block with AVX-512, else 8.
  Layout blocked_layout() const { return blocked_; }
  DataType activations() const { return activations_; }

 private:
  ThreadTeam team_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Layout blocked_;
  DataType activations_;
};

}  // namespace poseidon::cpu
