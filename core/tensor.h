#pragma once

#include <cstddef>

#include "core/data_type.h"
#include "core/shape.h"

namespace poseidon {

/// How an activation lies in memory.
struct Format {
  Layout layout = Layout::kPlain;
  DataType type = DataType::kFp32;

  auto operator<=>(const Format&) const = default;
};

inline constexpr Format kPlainFp32{};

/// Bytes an activation takes in memory, padding included.
inline size_t stored_bytes(const Shape& shape, const Format& format) {
  return static_cast<size_t>(stored_count(shape, format.layout)) * bytes_of(format.type);
}

/// A view of an activation or its gradient on a device, in the stated format. It owns nothing; the
/// net's arena does, for as long as the net lives.
struct Tensor {
  void* data = nullptr;  ///< null: this tensor is not wanted
  Shape shape;
  Format format;

  Blocking blocking() const { return {shape, format.layout}; }
  /// Its elements, as what format.type says they are.
  template <class Element>
  Element* as() const {
    return static_cast<Element*>(data);
  }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace poseidon
