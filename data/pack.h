#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/dataset.h"
#include "data/dataset_config.h"

namespace poseidon::data {

struct PackOptions {
  std::filesystem::path input;  ///< a folder, .tar or .tar.gz
  std::filesystem::path output;
  std::string prefix;                ///< path inside the input that holds the class folders
  std::vector<std::string> classes;  ///< empty: the sorted names of the class folders
  uint64_t shard_bytes = uint64_t{1} << 30;
  int64_t resize_short = 0;              ///< shrink so that the shorter side has this length
  int quality = 92;                      ///< of images that are encoded again
  bool decode = false;                   ///< keep pixels, not image files
  bool check_images = false;             ///< decode every image once to see that it is whole
  std::optional<uint64_t> shuffle_seed;  ///< without it, samples are in the order of names
  OnError on_error = OnError::kStop;
};

struct PackReport {
  int64_t samples = 0;
  int64_t classes = 0;
  int64_t skipped = 0;
};

/// Called now and then with the number of samples done, and of all.
using PackProgress = std::function<void(int64_t done, int64_t all)>;

/// Packs images into a record set. The same images give the same bytes, from a folder or an
/// archive. Nothing is left of an attempt that throws.
PackReport pack_images(const PackOptions& options, Log& log, const PackProgress& progress);

/// Writes a dataset of 8-bit pixels or image files as a record set.
PackReport pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                        uint64_t shard_bytes, const PackProgress& progress);

}  // namespace poseidon::data
