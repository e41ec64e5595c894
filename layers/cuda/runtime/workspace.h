#pragma once

#include <cstddef>
#include <cstdint>

/// Where libraries want their workspace: tensors of the net begin at multiples of 64 bytes, their
/// workspace must at multiples of 256.
namespace poseidon::layers::cuda {

inline constexpr size_t kWorkspaceAlignment = 256;

/// Bytes to ask for, so that `bytes` of them can be aligned.
constexpr size_t with_alignment(size_t bytes) {
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

/// The first aligned byte of what was asked for.
inline std::byte* aligned(std::byte* workspace) {
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  return workspace + (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
}

}  // namespace poseidon::layers::cuda
