#include "data/image_folder.h"

#include <algorithm>
#include <filesystem>

#include "core/file.h"
#include "data/fingerprint.h"
#include "data/image.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

struct ImageFile {
  std::string name;  ///< relative to the dataset's folder, with '/'
  uint64_t bytes = 0;
  int32_t label = 0;
};

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> classes;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && !name.starts_with(".")) classes.push_back(name);
  }
  std::sort(classes.begin(), classes.end());
  return classes;
}

void append_images(const fs::path& folder, const std::string& class_name, int32_t label,
                   std::vector<ImageFile>& files) {
  const size_t before = files.size();
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder / class_name))
    if (entry.is_regular_file() && is_image_name(entry.path().filename().string()))
      files.push_back(
          {entry.path().lexically_relative(folder).generic_string(), entry.file_size(), label});
  std::sort(files.begin() + static_cast<ptrdiff_t>(before), files.end(),
            [](const ImageFile& a, const ImageFile& b) { return a.name < b.name; });
}

class ImageFolder final : public Dataset {
 public:
  explicit ImageFolder(const fs::path& folder) : folder_(folder) {
    description_.source = folder.string();
    description_.classes = class_folders(folder);
    for (size_t i = 0; i < description_.classes.size(); ++i)
      append_images(folder, description_.classes[i], static_cast<int32_t>(i), files_);
    description_.samples = static_cast<int64_t>(files_.size());
    if (files_.empty())
      throw ConfigError(text(folder.string(),
                             ": expected a folder per class with JPEG, PNG, BMP or "
                             "PNM files, got ",
                             description_.classes.size(), " folders and no image"));
    description_.fingerprint = fingerprint();
  }

  const DatasetDescription& description() const override { return description_; }

  void read(int64_t index, Sample& sample) const override {
    const ImageFile& file = files_.at(static_cast<size_t>(index));
    sample.label = file.label;
    sample.form = SampleForm::kEncoded;
    const fs::path path = folder_ / file.name;
    if (file.bytes > kMostEncodedBytes)
      throw CorruptSample(text(path.string(), ": expected an image of at most ", kMostEncodedBytes,
                               " bytes, got ", file.bytes));
    read_file(path, kMostEncodedBytes, sample.storage);
    sample.bytes = sample.storage;
  }

  std::string name(int64_t index) const override {
    return (folder_ / files_.at(static_cast<size_t>(index)).name).string();
  }

 private:
  std::string fingerprint() const {
    Fingerprint fingerprint;
    fingerprint.add(static_cast<uint64_t>(files_.size()));
    fingerprint.add(description_.classes);
    for (const ImageFile& file : files_) {
      fingerprint.add(file.name);
      fingerprint.add(file.bytes);
      fingerprint.add(static_cast<uint64_t>(file.label));
    }
    return fingerprint.hex();
  }

  fs::path folder_;
  DatasetDescription description_;
  std::vector<ImageFile> files_;
};

}  // namespace

bool is_image_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (name.starts_with(".") || dot == std::string_view::npos) return false;
  std::string ending(name.substr(dot));
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  constexpr std::string_view kEndings[] = {".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".pnm"};
  return std::find(std::begin(kEndings), std::end(kEndings), ending) != std::end(kEndings);
}

std::unique_ptr<Dataset> open_image_folder(const std::string& folder) {
  std::error_code failure;
  if (!fs::is_directory(folder, failure))
    throw ConfigError(text(folder, ": no such folder; expected one with a folder per class"));
  try {
    return std::make_unique<ImageFolder>(folder);
  } catch (const fs::filesystem_error& error) {
    throw RunError(text(folder, ": cannot be listed: ", error.what()));
  }
}

}  // namespace poseidon::data
