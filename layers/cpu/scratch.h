#pragma once

#include <cstddef>
#include <unordered_map>

#include "core/cpu/cpu_device.h"
#include "core/cpu/onednn.h"
#include "layers/cpu/one_thread.h"

namespace poseidon::layers::cpu {

using poseidon::cpu::CpuDevice;
using poseidon::cpu::MemoryDesc;

/// Allocates segments of the net's scratch memory. The segments are valid during one call.
class Scratch {
 public:
  explicit Scratch(std::byte* memory) : next_(memory) {}

  float* allocate(size_t bytes) {
    std::byte* piece = next_;
    next_ += rounded(bytes);
    return reinterpret_cast<float*>(piece);
  }

  std::byte* rest() const { return next_; }

  static constexpr size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  std::byte* next_;
};

/// The arguments of one execution of a oneDNN primitive.
class Arguments {
 public:
  explicit Arguments(CpuDevice& device) : device_(device) {}

  void add(int which, const MemoryDesc& description, void* data) {
    memory_.emplace(which, dnnl::memory(description, device_.engine(), data));
  }

  template <class Primitive>
  void run(const Primitive& primitive, const MemoryDesc& scratchpad, Scratch& scratch) {
    run(primitive, scratchpad, scratch, device_.stream());
  }
  /// Runs on `stream`. Threads that run primitives at the same time need separate streams.
  template <class Primitive>
  void run(const Primitive& primitive, const MemoryDesc& scratchpad, Scratch& scratch,
           dnnl::stream& stream) {
    if (scratchpad.get_size() > 0)
      add(DNNL_ARG_SCRATCHPAD, scratchpad, scratch.allocate(scratchpad.get_size()));
    primitive.execute(stream, memory_);
    stream.wait();
  }

 private:
  CpuDevice& device_;
  std::unordered_map<int, dnnl::memory> memory_;
};

/// A copy between two orders of one tensor. Created once, and run in every step.
class PreparedReorder {
 public:
  PreparedReorder() = default;
  PreparedReorder(CpuDevice& device, const MemoryDesc& from, const MemoryDesc& to)
      : from_(from), to_(to), reorder_({device.engine(), from, device.engine(), to}) {}

  void run(CpuDevice& device, void* source, void* target) const {
    const OneThread one_thread;
    dnnl::memory in(from_, device.engine(), source), out(to_, device.engine(), target);
    reorder_.execute(device.stream(), in, out);
    device.stream().wait();
  }

 private:
  MemoryDesc from_, to_;
  dnnl::reorder reorder_;
};

}  // namespace poseidon::layers::cpu
