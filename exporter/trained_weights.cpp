#include "exporter/trained_weights.h"

#include "core/as_config_error.h"
#include "core/error.h"
#include "importer/expected_tensors.h"
#include "trainer/report/run_directory.h"
#include "trainer/state/checkpoint.h"

namespace poseidon::exporter {

namespace fs = std::filesystem;

namespace {

constexpr const char* kNetworkFile = "network.json";
constexpr const char* kImportedWeights = "weights.safetensors";

bool is_checkpoint(const fs::path& file) {
  return fs::exists(fs::path(file).replace_extension(".state"));
}

fs::path network_beside(const fs::path& source) {
  const fs::path run = trainer::run_directory_of(source);
  const fs::path folder = run.empty() ? fs::absolute(source).parent_path() : run;
  if (fs::exists(folder / kNetworkFile)) return folder / kNetworkFile;
  throw ConfigError(text(source.string(), ": expected ", kNetworkFile, " in ", folder.string(),
                         ", or --network FILE"));
}

}  // namespace

TrainedWeights::TrainedWeights(const fs::path& source, const fs::path& network, Log& log) {
  const fs::path weights = weights_file(source, log);
  file_ = as_config_error([&] { return std::make_unique<trainer::SafetensorsFile>(weights); });
  network_ = std::make_unique<net::Network>(network.empty() ? network_beside(source) : network, 1);
  importer::expect_tensors(*file_, importer::weights_of(*network_),
                           "network \"" + network_->name() + "\"");
}

fs::path TrainedWeights::weights_file(const fs::path& source, Log& log) {
  if (!fs::exists(source)) throw ConfigError(source.string() + ": no such folder or file");
  const bool folder = fs::is_directory(source);
  if (folder ? trainer::has_checkpoint(source) : is_checkpoint(source)) {
    const auto checkpoint = as_config_error([&] { return trainer::open_checkpoint(source, log); });
    step_ = checkpoint->state().step;
    return checkpoint->weights_file();
  }
  if (!folder) return source;
  if (fs::exists(source / kImportedWeights)) return source / kImportedWeights;
  throw ConfigError(text(source.string(), ": expected a run directory with a checkpoint, or a ",
                         "folder with ", kImportedWeights));
}

std::vector<float> TrainedWeights::read(const std::string& tensor) const {
  const auto* entry = file_->find(tensor);
  check(entry != nullptr, "all tensors of the network are in the file");
  return file_->read(*entry);
}

}  // namespace poseidon::exporter
