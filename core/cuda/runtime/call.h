#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "core/error.h"

namespace poseidon::cuda {

/// The text of an error: "an illegal memory access was encountered (cudaErrorIllegalAddress)".
inline std::string text_of(cudaError_t error) {
  return text(cudaGetErrorString(error), " (", cudaGetErrorName(error), ")");
}

/// Throws RunError with the name of the call if it failed. Clears the error, so that later calls do
/// not report it again.
inline void check_call(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw RunError(text(call, ": ", text_of(result)));
}

}  // namespace poseidon::cuda
