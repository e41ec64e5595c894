#include "importer/new_folder.h"

#include "core/error.h"

namespace poseidon::importer {

void check_folder_is_empty(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(folder) && (!fs::is_directory(folder) || !fs::is_empty(folder)))
    throw ConfigError(folder.string() +
                      ": exists already; expected a new or empty folder, or --force, which "
                      "overwrites an earlier import there");
}

void prepare_output_folder(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw ConfigError(folder.string() + ": is a file, expected a folder");
  fs::create_directories(folder);
  for (const char* file : {"network.json", "job.json", "weights.safetensors", "mean.pfm"})
    fs::remove(folder / file);
}

}  // namespace poseidon::importer
