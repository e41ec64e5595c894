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
#include "data/orientation.h"

namespace poseidon::data {

enum class PackType : uint8_t {
  kImages,      ///< folder, .tar or .tar.gz that contains one folder per class
  kList,        ///< text file with lines "PATH LABEL"
  kWebDataset,  ///< .tar or .tar.gz with <name>.jpg and <name>.cls
  kLmdb,
  kLevelDb,
  kHdf5  ///< HDF5 files, or text files (.txt) that list them
};

struct PackOptions {
  PackType type = PackType::kImages;
  std::vector<std::filesystem::path> inputs;  ///< several for kWebDataset and kHdf5, else one
  std::filesystem::path output;
  std::string prefix;               ///< kImages: path inside the input to the class folders
  std::filesystem::path root;       ///< base of the paths in lists; empty: the list's folder
  std::filesystem::path programs;   ///< folder of the reader programs for databases
  std::vector<std::string> extras;  ///< kHdf5: datasets read in addition to "data" and "label"
  bool bgr_to_rgb = false;          ///< reverse the channels of database pixels; Caffe stores BGR
  /// Class names; empty: the input's names, or as many numbers as the labels need.
  std::vector<std::string> classes;
  uint64_t shard_bytes = uint64_t{1} << 30;
  int64_t resize_short = 0;  ///< limit on the shorter side in pixels; larger images shrink; 0: off
  OrientationRule orientation = OrientationRule::kApply;
  int quality = 92;           ///< JPEG quality of images that are encoded again, 1 to 100
  bool decode = false;        ///< store pixels instead of image files
  bool check_images = false;  ///< also decode images that are stored unchanged, to find damage
  std::optional<uint64_t> shuffle_seed;  ///< kImages, kList: random order; nullopt: input order
  OnError on_error = OnError::kStop;
};

struct PackReport {
  int64_t samples = 0;
  int64_t classes = 0;
  int64_t skipped = 0;
};

/// Guesses the type of an input from its name, from the files in a folder, or from the first line
/// of a .txt file. Never returns kWebDataset. Throws ConfigError if a .txt file cannot be opened.
PackType guess_pack_type(const std::filesystem::path& input);

/// Called after each sample. `done` is the number of samples done, including skipped ones. `all` is
/// the total number; 0 if unknown. If it was unknown, also called at the end.
using PackProgress = std::function<void(int64_t done, int64_t all)>;

/// Packs samples into a record set. A folder and an archive of it produce equal bytes. Throws
/// ConfigError for an unusable input or option. With kStop, throws CorruptSample for a corrupt
/// sample. Throws RunError if an input cannot be read or a file cannot be written. After an
/// exception, no output files remain.
PackReport pack_samples(const PackOptions& options, Log& log, const PackProgress& progress);

/// Writes a dataset of 8-bit pixels as a record set, in index order. Throws ConfigError if `output`
/// exists and is not an empty folder. After an exception, no output files remain.
PackReport pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                        uint64_t shard_bytes, const PackProgress& progress);

}  // namespace poseidon::data
