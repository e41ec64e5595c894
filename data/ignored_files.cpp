#include "data/ignored_files.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/printable.h"

namespace poseidon::data {

namespace {

constexpr std::array<std::string_view, 7> kRead{".jpg", ".jpeg", ".png", ".bmp",
                                                ".ppm", ".pgm",  ".pnm"};
constexpr std::array<std::string_view, 21> kNotRead{
    ".webp", ".gif", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".j2k",  ".jxl", ".jfif",
    ".jpe",  ".dib", ".tga", ".ico",  ".svg",  ".psd",  ".exr",  ".pbm", ".apng", ".dng"};
constexpr std::array<std::string_view, 10> kSystemFolders{
    "@eaDir",     "@Recycle",     "@Recently-Snapshot",
    "#recycle",   "#snapshot",    "__MACOSX",
    "lost+found", "$RECYCLE.BIN", "System Volume Information",
    "__pycache__"};

template <size_t kCount>
bool is_among(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

std::string text_of_read() {
  std::string out;
  for (std::string_view ending : kRead) out += (out.empty() ? "" : ", ") + std::string(ending);
  return out;
}

}  // namespace

std::string lower_ending(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return "";
  std::string ending(name.substr(dot));
  for (char& c : ending)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return ending;
}

FileKind file_kind(std::string_view name) {
  if (is_hidden(name)) return FileKind::kNone;
  const std::string ending = lower_ending(name);
  if (is_among(kRead, ending)) return FileKind::kImage;
  return is_among(kNotRead, ending) ? FileKind::kOtherImage : FileKind::kNone;
}

bool is_hidden(std::string_view name) { return name.starts_with('.'); }
bool is_system_folder(std::string_view name) { return is_among(kSystemFolders, name); }

void IgnoredFiles::add_other_image(const std::string& class_name, std::string_view file) {
  ++others_[class_name][lower_ending(file)];
}

std::string IgnoredFiles::text_of(const Counts& counts) {
  std::vector<std::pair<std::string, int64_t>> sorted(counts.begin(), counts.end());
  std::ranges::stable_sort(sorted, std::greater{}, [](const auto& count) { return count.second; });
  std::string out;
  for (const auto& [ending, count] : sorted)
    out += text(out.empty() ? "" : ", ", ending, " ", count);
  return out;
}

std::string IgnoredFiles::other_images(const std::string& class_name) const {
  const auto found = others_.find(class_name);
  return found == others_.end() ? "" : text_of(found->second);
}

std::vector<std::string> IgnoredFiles::remarks() const {
  constexpr size_t kMaxNamed = 5;
  std::vector<std::string> remarks;
  Counts counts;
  int64_t others = 0;
  for (const auto& [class_name, of_class] : others_)
    for (const auto& [ending, count] : of_class) {
      counts[ending] += count;
      others += count;
    }
  if (others > 0)
    remarks.push_back(text(
        others, others == 1 ? " file of an unsupported format" : " files of unsupported formats",
        " ignored (", text_of(counts), "); supported: ", text_of_read()));
  if (outside_ > 0)
    remarks.push_back(text(outside_, outside_ == 1 ? " image" : " images",
                           " outside of the class folders ignored"));
  if (system_folders_.empty()) return remarks;
  std::string named;
  size_t count = 0;
  for (const std::string& folder : system_folders_)
    if (++count <= kMaxNamed) named += text(named.empty() ? "" : ", ", "\"", folder, "\"");
  if (count > kMaxNamed) named += text(" and ", count - kMaxNamed, " more");
  remarks.push_back(
      text(count == 1 ? "system folder ignored: " : "system folders ignored: ", named));
  return remarks;
}

std::vector<std::string> remarks_on_classes(const std::vector<std::string>& classes,
                                            const std::set<std::string>& filled,
                                            const IgnoredFiles& ignored) {
  std::vector<std::string> remarks;
  for (const std::string& name : classes) {
    if (filled.contains(name)) continue;
    const std::string others = ignored.other_images(name);
    remarks.push_back(text("the class folder \"", name, "\" holds no image",
                           others.empty() ? "" : text(" of a supported format (", others, ")"),
                           "; it counts as a class without samples"));
  }
  return remarks;
}

void check_class_name(const std::string& name, const std::string& path) {
  if (!is_utf8(name))
    throw ConfigError(text(printable(path),
                           ": expected the name of a class folder in UTF-8, got other bytes; "
                           "rename the folder"));
}

}  // namespace poseidon::data
