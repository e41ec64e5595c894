#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "data/sample.h"

namespace poseidon::data {

/// A sample in a Caffe database, a protobuf message "Datum". It contains an image file, 8-bit
/// values or floats. Values have the layout channels x height x width.
struct Datum {
  int64_t channels = 0, height = 0, width = 0;
  std::span<const std::byte> bytes;  ///< image file or 8-bit values; points into the message
  std::vector<float> floats;
  std::optional<int64_t> label;
  bool encoded = false;  ///< `bytes` is an image file
  /// An auxiliary input of a sample. Caffe's Datum has no such field. poseidon-read-hdf5 writes it
  /// for each additional dataset of an HDF5 file.
  struct NamedValues {
    AuxiliaryInput extra;
    std::span<const std::byte> values;  ///< floats; points into the message
  };
  std::vector<NamedValues> extras;
};

/// Decodes a message. Uses memory of at most a small multiple of the message size. Throws
/// CorruptSample whose message begins with `name` if the bytes are not a Datum.
Datum parse_datum(std::span<const std::byte> message, const std::string& name);

std::vector<std::byte> encode_datum(const Datum& datum);

/// Fills `sample` with the datum's label and its image file, or its pixels as height x width x
/// channels. Does not decode an image file. `sample.bytes` may point into the message from which
/// `datum` was parsed. Floats must be whole numbers from 0 to 255. `bgr_to_rgb` reverses the
/// channel order of 3-channel pixels. Throws CorruptSample if the label, the shape or a value is
/// invalid, or if the values do not fit the shape. The message begins with `name`.
void fill_from_datum(const Datum& datum, bool bgr_to_rgb, const std::string& name, Sample& sample);

/// Copies the datum's auxiliary inputs into `sample`, one after another, and returns their names
/// and shapes. Throws CorruptSample whose message begins with `name` if an input is invalid, or if
/// its values do not fit its shape.
std::vector<AuxiliaryInput> copy_auxiliary_inputs(const Datum& datum, const std::string& name,
                                                  Sample& sample);

}  // namespace poseidon::data
