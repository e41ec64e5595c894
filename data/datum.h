#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/extras.h"
#include "data/sample.h"

namespace poseidon::data {

/// A sample as Caffe's databases hold it, a protobuf message "Datum": an image file, or values of 8
/// bits or floats, channels x height x width.
struct Datum {
  int64_t channels = 0, height = 0, width = 0;
  std::span<const std::byte> bytes;  ///< an image file or values of 8 bits; in the message's memory
  std::vector<float> floats;
  std::optional<int64_t> label;
  bool encoded = false;  ///< `bytes` are an image file
  /// A field that Caffe has not: how poseidon-read-hdf5 gives what a row has beside image and
  /// label.
  struct NamedValues {
    Extra extra;
    std::span<const std::byte> values;  ///< floats; in the message's memory
  };
  std::vector<NamedValues> extras;
};

/// Decodes a message. Takes no more memory than a few times its size. Throws CorruptSample,
/// beginning with `name`, for what is none.
Datum parse_datum(std::span<const std::byte> message, const std::string& name);

std::vector<std::byte> encode_datum(const Datum& datum);

/// Fills `sample` with the datum's label and image file, or its pixels as height x width x
/// channels; these may lie where `datum` has them. Floats have to be whole numbers from 0 to 255.
/// With `bgr_to_rgb` pixels of three channels change the order of these. Throws CorruptSample,
/// beginning with `name`.
void take_datum(const Datum& datum, bool bgr_to_rgb, const std::string& name, Sample& sample);

/// Gives `sample` the datum's extras, one after another, and returns what they are. Throws
/// CorruptSample, beginning with `name`, for values that are not as many as their shape says.
std::vector<Extra> take_extras(const Datum& datum, const std::string& name, Sample& sample);

}  // namespace poseidon::data
