#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace poseidon::data {

/// One sample cannot be used: its bytes are damaged. The loader's `on_error` decides what follows.
class CorruptSample : public RunError {
 public:
  using RunError::RunError;
};

/// Makes a sample's name where a message needs it.
using SampleName = std::function<std::string()>;

enum class SampleForm : uint8_t {
  kEncoded,  ///< an image file: JPEG, PNG, BMP or PNM
  kPixels,   ///< uint8, height x width x channels
  kFloats,   ///< float, height x width x channels
};

/// A sample as a dataset keeps it. One object is reused for many samples: `storage` grows to the
/// largest. Where `bytes` points into the dataset's own memory, it is valid while the dataset
/// lives.
struct Sample {
  int32_t label = 0;
  SampleForm form = SampleForm::kPixels;
  int64_t height = 0, width = 0, channels = 0;  ///< of kPixels and kFloats
  std::span<const std::byte> bytes;             ///< in `storage`, or in the dataset
  std::vector<std::byte> storage;
  /// Floats, those of each of DatasetDescription::extras one after another; in `extras_storage`, or
  /// in the dataset, where they may lie at any address.
  std::span<const std::byte> extras = {};
  std::vector<std::byte> extras_storage = {};
};

}  // namespace poseidon::data
