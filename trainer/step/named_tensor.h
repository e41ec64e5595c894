#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/shape.h"

namespace poseidon::trainer {

/// A tensor of a run under its name in files. get and set copy its values in canonical order, for
/// every kind of memory and every layout.
struct NamedTensor {
  std::string name;
  Shape shape;
  std::function<void(std::span<float>)> get;
  std::function<void(std::span<const float>)> set;

  size_t count() const { return static_cast<size_t>(shape.count()); }
  /// Like get(), but replaces every NaN by one fixed NaN, because CPUs and GPUs compute NaNs with
  /// different bits. Digests, files and messages use these values.
  void read(std::span<float> out) const;
};

}  // namespace poseidon::trainer
