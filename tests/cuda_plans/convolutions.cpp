#include "tests/cuda_plans/convolutions.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/json.h"
#include "layers/cuda/runtime/cudnn_convolution.h"
#include "layers/deconvolution.h"
#include "tests/support/folders.h"

namespace poseidon::test {

namespace {

using std::filesystem::path;

const path kSources = test::source_folder();
constexpr int64_t kUsualBatch = 32;

std::vector<path> json_files(const path& folder) {
  std::vector<path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::ranges::sort(files, {}, [](const path& file) { return file.stem(); });
  return files;
}

/// The largest batch per worker of any job, for each network file.
std::map<path, int64_t> batches() {
  std::map<path, int64_t> found;
  for (const path& file : json_files(kSources / "configs")) {
    const Json job = read_json(file);
    const path network = (file.parent_path() / job.at("network").get<std::string>());
    int64_t& batch = found[network.lexically_normal()];
    batch = std::max(batch, job.at("data").value("batch_per_worker", kUsualBatch));
  }
  return found;
}

/// The convolution whose passes the layer uses; null if it uses none.
const layers::Convolution* convolution_of(const layers::Definition& definition) {
  if (const auto* transposed = dynamic_cast<const layers::Deconvolution*>(&definition))
    return &transposed->convolution;
  return dynamic_cast<const layers::Convolution*>(&definition);
}

}  // namespace

Convolutions::Convolutions() {
  const std::map<path, int64_t> of_jobs = batches();
  for (const path& file : json_files(kSources / "configs/networks")) {
    const auto job = of_jobs.find(file.lexically_normal());
    networks_.emplace_back(file, job == of_jobs.end() ? kUsualBatch : job->second);
  }
  networks_.emplace_back(kSources / "tests/cuda_plans/unusual.json", 7);
  std::set<std::string> known;
  for (const net::Network& network : networks_)
    for (const net::Node& node : network.nodes()) {
      const layers::Convolution* definition = convolution_of(*node.definition);
      if (definition != nullptr && known.insert(layers::cuda::geometry_text(*definition)).second)
        all_.push_back({network.name() + " " + definition->name, definition});
    }
}

}  // namespace poseidon::test
