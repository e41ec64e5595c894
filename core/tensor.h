#pragma once

#include <cstdint>

#include "core/shape.h"

namespace poseidon {

/// A view of an activation or its gradient on a device: fp32, in the stated layout. It owns
/// nothing; the net's arena does, for as long as the net lives.
struct Tensor {
  float* data = nullptr;  ///< null: this tensor is not wanted
  Shape shape;
  Layout layout = Layout::kPlain;

  Blocking blocking() const { return {shape, layout}; }
  explicit operator bool() const { return data != nullptr; }
};

}  // namespace poseidon
