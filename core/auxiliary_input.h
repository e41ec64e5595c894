#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/fields.h"
#include "core/shape.h"

namespace poseidon {

/// An auxiliary input: a tensor of floats that each sample has in addition to its image and label,
/// for example the camera position. It is a named input of the network.
struct AuxiliaryInput {
  std::string name;
  std::vector<int64_t> extents;  ///< extents of one sample: {channels, height, width}, or {values}

  Shape shape() const { return Shape(extents); }
  /// Shape for a batch: (n, c, h, w) or (n, values).
  Shape batch_shape(int64_t samples) const;
  /// Number of values in one sample.
  int64_t count() const { return shape().count(); }
  bool operator==(const AuxiliaryInput&) const = default;
};

/// Number of values in all auxiliary inputs of one sample.
int64_t count_of(std::span<const AuxiliaryInput> extras);
/// Names and shapes as text, such as "pose 6, depth 1x28x28"; "none" if the list is empty.
std::string text_of(std::span<const AuxiliaryInput> extras);

/// Describes the value of `key`: a list of objects with the keys "name" and "shape".
void describe_auxiliary_inputs(Fields& fields, std::string_view key,
                               std::vector<AuxiliaryInput>& extras, std::string_view doc);

/// The first error in a list of auxiliary inputs: a JSON pointer such as "/1/shape", and a message.
struct AuxiliaryInputError {
  std::string pointer, message;
  explicit operator bool() const { return !message.empty(); }
};
/// Checks a list of auxiliary inputs. Returns an empty error if it is valid. A name has 1 to 100
/// letters, digits, "_" or "-", occurs once, and is neither "input" nor "label". A shape has one
/// extent or three, each at least 1. All shapes together have fewer than 2^28 values. There are at
/// most 256 inputs.
AuxiliaryInputError first_error_in(std::span<const AuxiliaryInput> extras);

}  // namespace poseidon
