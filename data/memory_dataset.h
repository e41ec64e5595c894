#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace poseidon::data {

/// The part of a dataset that one file contains.
struct PixelFile {
  std::string name;
  std::vector<uint8_t> labels;
  std::vector<std::byte> pixels;  ///< height x width x channels for each label
};

/// A small dataset stored completely in memory. The files' samples follow one another.
class MemoryDataset final : public Dataset {
 public:
  /// `shape` is channels, height, width. Messages name the dataset by `source`.
  MemoryDataset(std::string source, std::vector<std::string> classes, Shape shape,
                std::vector<PixelFile> files);

  const DatasetDescription& description() const override { return description_; }
  void read(int64_t index, Sample& sample) const override;
  std::string name(int64_t index) const override;
  size_t memory_bytes() const override;

 private:
  struct Position {
    const PixelFile& file;
    int64_t index;
  };
  Position find(int64_t index) const;

  DatasetDescription description_;
  std::vector<PixelFile> files_;
};

}  // namespace poseidon::data
