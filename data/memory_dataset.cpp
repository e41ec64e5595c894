#include "data/memory_dataset.h"

#include "data/fingerprint.h"

namespace poseidon::data {

MemoryDataset::MemoryDataset(std::string source, std::vector<std::string> classes, Shape shape,
                             std::vector<PixelFile> files)
    : files_(std::move(files)) {
  description_.source = std::move(source);
  description_.classes = std::move(classes);
  description_.shape = shape;
  Fingerprint fingerprint;
  fingerprint.add(description_.classes);
  for (int64_t extent : shape.extents()) fingerprint.add(static_cast<uint64_t>(extent));
  for (const PixelFile& file : files_) {
    description_.samples += static_cast<int64_t>(file.labels.size());
    fingerprint.add(std::string(file.labels.begin(), file.labels.end()));
  }
  fingerprint.add(static_cast<uint64_t>(description_.samples));
  description_.fingerprint = fingerprint.hex();
}

MemoryDataset::Position MemoryDataset::find(int64_t index) const {
  check(index >= 0, "sample index below 0");
  for (const PixelFile& file : files_) {
    if (index < static_cast<int64_t>(file.labels.size())) return {file, index};
    index -= static_cast<int64_t>(file.labels.size());
  }
  throw LogicError("sample index beyond the dataset");
}

void MemoryDataset::read(int64_t index, Sample& sample) const {
  const Position at = find(index);
  const Shape& shape = description_.shape;
  const size_t bytes = static_cast<size_t>(shape.count());
  sample.label = at.file.labels[static_cast<size_t>(at.index)];
  sample.form = SampleForm::kPixels;
  sample.channels = shape[0];
  sample.height = shape[1];
  sample.width = shape[2];
  sample.bytes = std::span(at.file.pixels).subspan(static_cast<size_t>(at.index) * bytes, bytes);
}

size_t MemoryDataset::memory_bytes() const {
  size_t bytes = 0;
  for (const PixelFile& file : files_) bytes += file.labels.size() + file.pixels.size();
  return bytes;
}

std::string MemoryDataset::name(int64_t index) const {
  const Position at = find(index);
  return text(at.file.name, " #", at.index);
}

}  // namespace poseidon::data
