#include "trainer/job/data_root.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "core/error.h"

namespace poseidon::trainer {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kVariable = "${POSEIDON_DATA}";

/// The rest of the path after the variable and its slash; the whole path if it does not begin with
/// the variable.
std::string without_variable(const std::string& path) {
  if (!path.starts_with(kVariable)) return path;
  const std::string rest = path.substr(kVariable.size());
  if (rest.empty()) return ".";
  return rest[0] == '/' ? rest.substr(std::min(rest.find_first_not_of('/'), rest.size())) : path;
}

bool goes_up(const fs::path& path) { return std::ranges::find(path, "..") != path.end(); }

/// Whether `path` is `folder` or is below it. Both paths must be free of links and "..".
bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

/// Whether all links below `place` lead into `folder`. Code that lists a dataset's folder follows
/// its links.
bool links_stay_in(const fs::path& place, const fs::path& folder) {
  std::error_code failure;
  if (folder == folder.root_path() || !fs::is_directory(place)) return true;
  constexpr auto kSkip = fs::directory_options::skip_permission_denied;
  for (fs::recursive_directory_iterator entry(place, kSkip, failure), end; !failure && entry != end;
       entry.increment(failure)) {
    if (!entry->is_symlink()) continue;
    const fs::path real = fs::canonical(entry->path(), failure);
    if (failure || !lies_in(real, folder)) return false;
  }
  return !failure;
}

}  // namespace

DataRoot::DataRoot(const fs::path& folder)
    : folder_(folder.has_filename() ? folder : folder.parent_path()) {}

std::optional<fs::path> DataRoot::real_path(const fs::path& path) const {
  std::error_code failure;
  const fs::path root = fs::canonical(folder_, failure);
  const bool begins_below = path.is_relative() || lies_in(path, folder_) || lies_in(path, root);
  // Do not access any path outside the folder, not even to see whether it exists.
  if (failure || goes_up(path) || !begins_below) return std::nullopt;
  const fs::path real = fs::canonical(folder_ / path, failure);
  if (failure || !lies_in(real, root) || !links_stay_in(real, root)) return std::nullopt;
  return real;
}

fs::path DataRoot::resolve(const std::string& path) const {
  const auto refuse = [&](std::string_view why) {
    throw ConfigError(text("\"", path, "\" ", why));
  };
  if (folder_.empty())
    refuse(
        "cannot be opened: this node has no data root and accepts only jobs with generated data "
        "(start it with --data-root, or with POSEIDON_DATA set)");
  const fs::path inner = without_variable(path);
  if (inner.string().find("${") != std::string::npos)
    refuse(
        "cannot be opened: expected no variable except ${POSEIDON_DATA}, this node's data root, at "
        "the start, because the job came from another node");
  const std::optional<fs::path> real = real_path(inner);
  if (!real)
    refuse(
        "does not exist under this node's data root (\"..\", absolute paths and symbolic links "
        "may not lead out of it)");
  return *real;
}

}  // namespace poseidon::trainer
