#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "core/shape.h"

namespace poseidon {

/// A tensor of floats that a sample has beside its image and label, such as where it was taken: an
/// input of a network with a name of its own.
struct Extra {
  std::string name;
  std::vector<int64_t> extents;  ///< of one sample: channels, height, width; or a number of values

  Shape shape() const { return Shape(extents); }
  /// Of a batch: (n, c, h, w) or (n, values).
  Shape batch_shape(int64_t samples) const;
  /// Of one sample.
  int64_t count() const { return shape().count(); }
  bool operator==(const Extra&) const = default;
};

/// Values of one sample in all of them together.
int64_t count_of(std::span<const Extra> extras);
/// "pose 6, depth 1x28x28"; "none".
std::string text_of(std::span<const Extra> extras);

/// A list of objects with the keys "name" and "shape".
void describe_extras(Fields& fields, std::string_view key, std::vector<Extra>& extras,
                     std::string_view doc);

/// What is wrong in a list of them: where, as "/1/shape", and a message.
struct ExtraFault {
  std::string pointer, message;
  explicit operator bool() const { return !message.empty(); }
};
/// Names are letters, digits, "_" and "-", each used once, and neither "input" nor "label"; shapes
/// have one extent or three, and all together fewer than 2^28 values.
ExtraFault fault_in(std::span<const Extra> extras);

}  // namespace poseidon
