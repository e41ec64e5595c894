#pragma once

#include <cstddef>
#include <cstdint>

/// Alignment of a library's workspace. The net aligns memory to 64 bytes, but the libraries need
/// workspaces that begin at multiples of 256 bytes.
namespace poseidon::layers::cuda {

inline constexpr size_t kWorkspaceAlignment = 256;

/// Bytes to request from the net, so that `bytes` aligned bytes fit.
constexpr size_t with_alignment(size_t bytes) {
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

/// The first aligned byte of the requested memory.
inline std::byte* aligned(std::byte* workspace) {
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  return workspace + (kWorkspaceAlignment - address % kWorkspaceAlignment) % kWorkspaceAlignment;
}

}  // namespace poseidon::layers::cuda
