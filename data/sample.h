#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace poseidon::data {

/// Error: one sample cannot be used, for example because its bytes are damaged. The option
/// `on_error` decides whether to stop or to skip the sample.
class CorruptSample : public RunError {
 public:
  using RunError::RunError;
};

/// Returns a sample's name. Called only if a message needs the name.
using SampleName = std::function<std::string()>;

enum class SampleForm : uint8_t {
  kEncoded,  ///< an image file: JPEG, PNG, BMP or PNM
  kPixels,   ///< uint8, height x width x channels
  kFloats,   ///< float, height x width x channels
};

/// A sample as a dataset stores it. Reuse one object for many samples: `storage` grows to the size
/// of the largest sample. If `bytes` points into the dataset's memory, it is valid while the
/// dataset exists.
struct Sample {
  int32_t label = 0;
  SampleForm form = SampleForm::kPixels;
  int64_t height = 0, width = 0, channels = 0;  ///< may be unset for kEncoded
  std::span<const std::byte> bytes;  ///< points into `storage` or into the dataset's memory
  std::vector<std::byte> storage;
  /// Auxiliary inputs: the floats of each of DatasetDescription::extras, one after another. Points
  /// into `extras_storage` or into the dataset's memory, possibly unaligned.
  std::span<const std::byte> extras = {};
  std::vector<std::byte> extras_storage = {};
};

}  // namespace poseidon::data
