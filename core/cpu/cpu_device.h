#pragma once

#include <dnnl.hpp>

#include "core/shape.h"

namespace poseidon::cpu {

/// The CPU as a compute device: the oneDNN engine and stream, and the number of threads of the
/// compute thread's OpenMP team. All layers of a net share one. Used by the compute thread only.
class CpuDevice {
 public:
  /// `threads` 0: all cores that the system allows (core/cores.h). Sets the calling thread's OpenMP
  /// team.
  explicit CpuDevice(int threads);

  dnnl::engine& engine() { return engine_; }
  dnnl::stream& stream() { return stream_; }
  int threads() const { return threads_; }
  /// The blocked layout of this instruction set: 16 channels with AVX-512, else 8.
  Layout blocked_layout() const { return blocked_; }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  Layout blocked_;
};

}  // namespace poseidon::cpu
