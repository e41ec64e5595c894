#include "data/web_dataset.h"

#include <algorithm>
#include <unordered_map>

#include "core/printable.h"
#include "data/ignored_files.h"
#include "data/image.h"
#include "data/tar_archive.h"

namespace poseidon::data {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kMaxLabelBytes = 64;

/// Returns the position of the extension in a member's name: the first dot after the last slash.
size_t ending_of(const std::string& name) {
  const size_t file = name.rfind('/') == std::string::npos ? 0 : name.rfind('/') + 1;
  return std::min(name.find('.', file), name.size());
}

bool is_label_ending(std::string_view ending) { return ending == ".cls"; }
/// Returns true for ".jpg", but not for ".mask.png", because "a.mask.png" is not the image of the
/// sample "a".
bool is_image_ending(std::string_view ending) {
  return ending.rfind('.') == 0 && file_kind("image" + std::string(ending)) == FileKind::kImage;
}

/// Returns true if a component of the entry's path is hidden or a system folder.
bool is_passed_over(const TarEntry& entry) {
  for (const std::filesystem::path& part : std::filesystem::path(entry.name)) {
    const std::string name = part.string();
    if (name != "." && name != ".." && (is_hidden(name) || is_system_folder(name))) return true;
  }
  return false;
}

void put_member(std::optional<size_t>& place, size_t index, const char* what, WebSample& sample) {
  const std::string several = text("several ", what);
  std::string& fault = sample.fault;
  if (place && fault.find(several) == std::string::npos)
    fault += text(fault.empty() ? "has " : " and ", several);
  place = index;
}

/// Adds a missing member to the faults that put_member() found.
void find_faults(WebSample& sample) {
  std::string& fault = sample.fault;
  if (!sample.image) fault = (fault.empty() ? "has a label (.cls)" : fault) + " and no image";
  if (!sample.label) fault = (fault.empty() ? "has an image" : fault) + " and no label (.cls)";
}

class WebDataset final : public SampleStream {
 public:
  WebDataset(const fs::path& path, const fs::path& work_folder)
      : archive_(path, work_folder), samples_(list_web_samples(archive_.entries())) {
    if (samples_.empty())
      throw ConfigError(text(path.string(), ": expected members <name>.jpg (or .png, .bmp, .ppm) ",
                             "and <name>.cls, got none"));
  }

  bool next(std::string& name, Sample& sample) override {
    if (done_ == samples_.size()) return false;
    const WebSample& web = samples_[done_++];
    const std::string shown = text(archive_.path().string(), ": ", printable(web.stem));
    if (!web.fault.empty()) throw CorruptSample(text(shown, ": ", web.fault));
    sample.label = label_of(archive_.entries()[*web.label], shown);
    const TarEntry& image = archive_.entries()[*web.image];
    name = image.name;
    archive_.read(image, kMaxEncodedBytes, sample.storage);
    sample.form = SampleForm::kEncoded;
    sample.bytes = sample.storage;
    return true;
  }
  std::string source() const override { return archive_.path().string(); }
  int64_t size() const override { return static_cast<int64_t>(samples_.size()); }

 private:
  int32_t label_of(const TarEntry& entry, const std::string& shown) const {
    std::vector<std::byte> written;
    archive_.read(entry, kMaxLabelBytes, written);
    return parse_label({reinterpret_cast<const char*>(written.data()), written.size()}, shown);
  }

  TarArchive archive_;
  std::vector<WebSample> samples_;
  size_t done_ = 0;
};

}  // namespace

std::vector<WebSample> list_web_samples(const std::vector<TarEntry>& entries) {
  std::vector<WebSample> samples;
  std::unordered_map<std::string, size_t> known;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].kind == TarKind::kFolder || is_passed_over(entries[i])) continue;
    const std::string& name = entries[i].name;
    const size_t at = ending_of(name);
    const std::string_view ending = std::string_view(name).substr(at);
    if (!is_label_ending(ending) && !is_image_ending(ending)) continue;
    const auto [found, fresh] = known.try_emplace(name.substr(0, at), samples.size());
    if (fresh) samples.push_back({.stem = found->first, .image = {}, .label = {}, .fault = ""});
    WebSample& sample = samples[found->second];
    if (is_label_ending(ending))
      put_member(sample.label, i, "labels (.cls)", sample);
    else
      put_member(sample.image, i, "images", sample);
  }
  for (WebSample& sample : samples) find_faults(sample);
  return samples;
}

std::unique_ptr<SampleStream> open_web_dataset(const fs::path& path, const fs::path& work_folder) {
  return std::make_unique<WebDataset>(path, work_folder);
}

}  // namespace poseidon::data
