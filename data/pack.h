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
  kImages,      ///< a folder, .tar or .tar.gz with a folder for each class
  kList,        ///< a text file of lines "PATH LABEL"
  kWebDataset,  ///< .tar or .tar.gz with <name>.jpg and <name>.cls
  kLmdb,
  kLevelDb,
  kHdf5  ///< HDF5 files, or text files (.txt) that list them
};

struct PackOptions {
  PackType type = PackType::kImages;
  std::vector<std::filesystem::path> inputs;  ///< several of kWebDataset and kHdf5, else one
  std::filesystem::path output;
  std::string prefix;          ///< of kImages: path inside the input that holds the class folders
  std::filesystem::path root;  ///< what paths in lists are relative to; empty: the list's folder
  std::filesystem::path programs;    ///< folder of the programs that read databases
  std::vector<std::string> extras;   ///< of kHdf5: datasets beyond "data" and "label"
  bool bgr_to_rgb = false;           ///< pixels of databases, whose channels are in Caffe's order
  std::vector<std::string> classes;  ///< empty: the input's, or as many numbers as labels need
  uint64_t shard_bytes = uint64_t{1} << 30;
  int64_t resize_short = 0;  ///< shrink so that the shorter side has this length
  OrientationRule orientation = OrientationRule::kApply;
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

/// What an input looks like. Throws ConfigError for a file that cannot be opened.
PackType guess_pack_type(const std::filesystem::path& input);

/// Called now and then with the number of samples done, and of all; 0 where that is not known yet.
using PackProgress = std::function<void(int64_t done, int64_t all)>;

/// Packs samples into a record set. The same images give the same bytes, from a folder or an
/// archive. Nothing is left of an attempt that throws.
PackReport pack_samples(const PackOptions& options, Log& log, const PackProgress& progress);

/// Writes a dataset of 8-bit pixels or image files as a record set.
PackReport pack_dataset(const Dataset& dataset, const std::filesystem::path& output,
                        uint64_t shard_bytes, const PackProgress& progress);

}  // namespace poseidon::data
