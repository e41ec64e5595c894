#include "data/cifar.h"

#include <filesystem>

#include "core/file.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr size_t kCifarSide = 32, kArea = kCifarSide * kCifarSide, kPixels = 3 * kArea;
constexpr uint64_t kMaxFileBytes = uint64_t{2} << 30;

/// Appends an image's three channel planes as interleaved pixels.
void append_interleaved(std::span<const std::byte> planes, std::vector<std::byte>& out) {
  for (size_t i = 0; i < kArea; ++i)
    for (size_t c = 0; c < 3; ++c) out.push_back(planes[c * kArea + i]);
}

/// Returns the folder that contains `first_file`: `folder`, or its subfolder `inner`, which the
/// original archive contains.
fs::path find_folder(const fs::path& folder, const char* inner, const std::string& first_file) {
  std::error_code ignored;
  for (const fs::path& candidate : {folder, folder / inner})
    if (fs::exists(candidate / first_file, ignored)) return candidate;
  throw ConfigError(text((folder / first_file).string(),
                         ": no such file; expected the files of the binary version there or in ",
                         inner));
}

std::unique_ptr<Dataset> open_files(const fs::path& folder, const std::vector<std::string>& names,
                                    CifarForm form, std::vector<std::string> classes) {
  std::vector<PixelFile> files;
  std::vector<std::byte> bytes;
  for (const std::string& name : names) {
    read_file(folder / name, kMaxFileBytes, bytes);
    files.push_back(parse_cifar(bytes, form, (folder / name).string()));
    files.back().name = name;
  }
  return std::make_unique<MemoryDataset>(folder.string(), std::move(classes),
                                         Shape{3, kCifarSide, kCifarSide}, std::move(files));
}

}  // namespace

PixelFile parse_cifar(std::span<const std::byte> bytes, CifarForm form, const std::string& name) {
  const size_t label_bytes = static_cast<size_t>(form.label_bytes);
  const size_t record = label_bytes + kPixels;
  if (bytes.empty() || bytes.size() % record != 0)
    throw RunError(text(name, ": expected a multiple of ", record, " bytes, got ", bytes.size(),
                        ": truncated, or not a binary CIFAR file"));
  PixelFile file;
  file.name = name;
  file.labels.reserve(bytes.size() / record);
  file.pixels.reserve(bytes.size() / record * kPixels);
  for (size_t at = 0; at < bytes.size(); at += record) {
    const int label = std::to_integer<int>(bytes[at + label_bytes - 1]);
    if (label >= form.classes)
      throw RunError(text(name, ": byte ", at + label_bytes - 1, ": expected a label of 0 to ",
                          form.classes - 1, ", got ", label));
    file.labels.push_back(static_cast<uint8_t>(label));
    append_interleaved(bytes.subspan(at + label_bytes, kPixels), file.pixels);
  }
  return file;
}

std::unique_ptr<Dataset> open_cifar10(const std::string& folder, const std::string& split) {
  std::vector<std::string> names{"test_batch.bin"};
  if (split != "test")
    names = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
             "data_batch_5.bin"};
  return open_files(
      find_folder(folder, "cifar-10-batches-bin", names[0]), names, kCifar10,
      {"airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"});
}

std::unique_ptr<Dataset> open_cifar100(const std::string& folder, const std::string& split) {
  const std::string name = split == "test" ? "test.bin" : "train.bin";
  std::vector<std::string> classes;
  for (int i = 0; i < kCifar100.classes; ++i) classes.push_back(std::to_string(i));
  return open_files(find_folder(folder, "cifar-100-binary", name), {name}, kCifar100,
                    std::move(classes));
}

}  // namespace poseidon::data
