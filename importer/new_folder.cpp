#include "importer/new_folder.h"

#include "core/error.h"

namespace poseidon::importer {

void refuse_used_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder)))
    throw ConfigError(folder.string() + ": exists already; expected a new or empty folder");
}

}  // namespace poseidon::importer
