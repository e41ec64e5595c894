#pragma once

#include <cstddef>

#include "core/data_type.h"
#include "core/shape.h"

namespace poseidon {

/// The layout and the element type of an activation in memory.
struct Format {
  Layout layout = Layout::kPlain;
  DataType type = DataType::kFp32;

  auto operator<=>(const Format&) const = default;
};

inline constexpr Format kPlainFp32{};

/// Bytes of an activation in memory, padding included.
inline size_t stored_bytes(const Shape& shape, const Format& format) {
  return static_cast<size_t>(stored_count(shape, format.layout)) * bytes_of(format.type);
}

/// A view of an activation, or of its gradient, in device memory. The net's arena owns the memory
/// as long as the net exists.
struct Tensor {
  void* data = nullptr;  ///< null: this tensor is not needed
  Shape shape;
  Format format;

  Blocking blocking() const { return {shape, format.layout}; }
  /// The elements. `Element` must be the type that format.type states.
  template <class Element>
  Element* as() const {
    return static_cast<Element*>(data);
  }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace poseidon
