#include "data/mnist.h"

#include <filesystem>
#include <optional>

#include "core/file.h"
#include "data/big_endian.h"
#include "data/gzip.h"
#include "data/memory_dataset.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxIdxBytes = uint64_t{2} << 30;
constexpr int kClasses = 10;

std::string hex(uint32_t value) {
  std::ostringstream out;
  out << "0x" << std::hex;
  out.width(8);
  out.fill('0');
  out << value;
  return out.str();
}

/// Finds the file STEM-KIND or STEM.KIND in `folder`, with or without ".gz". Both separators are
/// common.
fs::path find_file(const fs::path& folder, const std::string& stem, const std::string& kind) {
  for (const char* separator : {"-", "."})
    for (const char* ending : {"", ".gz"}) {
      const fs::path path = folder / (stem + separator + kind + ending);
      std::error_code ignored;
      if (fs::exists(path, ignored)) return path;
    }
  throw ConfigError(
      text((folder / (stem + "-" + kind)).string(),
           ": no such file, with or without \".gz\"; expected the MNIST files there"));
}

size_t header_bytes(int dimensions) { return 4 + 4 * static_cast<size_t>(dimensions); }

/// Returns the extents in the header of a file that begins with `bytes`. The values after the
/// header may be missing. Throws RunError if the header is truncated or invalid.
std::vector<int64_t> read_header(std::span<const std::byte> bytes, int dimensions,
                                 const std::string& name) {
  const size_t header = header_bytes(dimensions);
  if (bytes.size() < header)
    throw RunError(text(name, ": expected a header of ", header, " bytes, got ", bytes.size()));
  const uint32_t expected = 0x0800u | static_cast<uint32_t>(dimensions);
  if (big_endian(bytes, 0) != expected)
    throw RunError(text(name, ": byte 0: expected the magic number ", hex(expected),
                        " (unsigned bytes, ", dimensions,
                        dimensions == 1 ? " dimension" : " dimensions", "), got ",
                        hex(big_endian(bytes, 0))));
  std::vector<int64_t> extents;
  uint64_t count = 1;
  for (size_t i = 0; i < static_cast<size_t>(dimensions); ++i) {
    const uint32_t extent = big_endian(bytes, 4 + 4 * i);
    if (extent == 0 || count * extent > kMaxIdxBytes)
      throw RunError(text(name, ": byte ", 4 + 4 * i,
                          ": expected an extent of at least 1 and at most ", kMaxIdxBytes,
                          " values in total, got ", extent));
    extents.push_back(extent);
    count *= extent;
  }
  return extents;
}

uint64_t product(const std::vector<int64_t>& extents) {
  uint64_t count = 1;
  for (int64_t extent : extents) count *= static_cast<uint64_t>(extent);
  return count;
}

/// Decompresses a file. Throws RunError as soon as the output exceeds the size in the file's
/// header.
std::vector<std::byte> inflate_idx(std::span<const std::byte> packed, int dimensions,
                                   const std::string& name) {
  std::vector<std::byte> out;
  std::optional<uint64_t> announced;
  inflate(packed, kMaxIdxBytes, name, [&](std::span<const std::byte> piece) {
    out.insert(out.end(), piece.begin(), piece.end());
    const size_t header = header_bytes(dimensions);
    if (!announced && out.size() >= header)
      announced = header + product(read_header(out, dimensions, name));
    if (announced && out.size() > *announced)
      throw RunError(text(name, ": expected ", *announced,
                          " bytes after decompression, as the header states, got more"));
  });
  return out;
}

std::vector<std::byte> read_unpacked(const fs::path& path, int dimensions) {
  std::vector<std::byte> bytes;
  read_file(path, kMaxIdxBytes, bytes);
  return is_gzip(bytes) ? inflate_idx(bytes, dimensions, path.string()) : bytes;
}

void check_labels(const IdxFile& labels, const std::string& name) {
  for (size_t i = 0; i < labels.values.size(); ++i)
    if (std::to_integer<int>(labels.values[i]) >= kClasses)
      throw RunError(text(name, ": sample ", i, ": expected a label of 0 to ", kClasses - 1,
                          ", got ", std::to_integer<int>(labels.values[i])));
}

}  // namespace

IdxFile parse_idx(std::span<const std::byte> bytes, int dimensions, const std::string& name) {
  IdxFile file;
  file.extents = read_header(bytes, dimensions, name);
  const uint64_t count = product(file.extents);
  file.values = bytes.subspan(header_bytes(dimensions));
  if (file.values.size() != count)
    throw RunError(text(name, ": expected ", count, " values after the header, got ",
                        file.values.size(),
                        file.values.size() < count ? ": the file is truncated" : ""));
  return file;
}

std::unique_ptr<Dataset> open_mnist(const std::string& folder, const std::string& split) {
  const std::string prefix = split == "test" ? "t10k" : "train";
  const fs::path image_path = find_file(folder, prefix + "-images", "idx3-ubyte");
  const fs::path label_path = find_file(folder, prefix + "-labels", "idx1-ubyte");
  const std::vector<std::byte> image_bytes = read_unpacked(image_path, 3);
  const std::vector<std::byte> label_bytes = read_unpacked(label_path, 1);
  const IdxFile images = parse_idx(image_bytes, 3, image_path.string());
  const IdxFile labels = parse_idx(label_bytes, 1, label_path.string());
  if (images.extents[0] != labels.extents[0])
    throw RunError(text(label_path.string(), ": expected ", images.extents[0],
                        " labels, one for each image, got ", labels.extents[0]));
  check_labels(labels, label_path.string());

  PixelFile file;
  file.name = image_path.filename().string();
  file.pixels.assign(images.values.begin(), images.values.end());
  for (std::byte label : labels.values) file.labels.push_back(std::to_integer<uint8_t>(label));
  std::vector<std::string> classes;
  for (int i = 0; i < kClasses; ++i) classes.push_back(std::to_string(i));
  std::vector<PixelFile> files;
  files.push_back(std::move(file));
  return std::make_unique<MemoryDataset>(
      folder, std::move(classes), Shape{1, images.extents[1], images.extents[2]}, std::move(files));
}

}  // namespace poseidon::data
