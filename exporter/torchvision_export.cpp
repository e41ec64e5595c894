#include "exporter/torchvision_export.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"
#include "importer/torchvision_import.h"
#include "importer/torchvision_state.h"
#include "layers/batch_norm.h"

namespace poseidon::exporter {

namespace {

using importer::StateTensor;

void warn_of_other_epsilon(const net::Network& network, const importer::TorchvisionArch& arch,
                           Log& log) {
  for (const net::Node& node : network.nodes()) {
    const auto* norm = dynamic_cast<const layers::BatchNorm*>(node.definition.get());
    if (norm == nullptr || norm->epsilon == arch.epsilon) continue;
    log.warning(text("batch_norm \"", norm->name, "\": torchvision's ", arch.name,
                     " has the epsilon ", arch.epsilon, ", this network ", norm->epsilon,
                     ": scores differ unless you create torchvision's model with "
                     "norm_layer=partial(torch.nn.BatchNorm2d, eps=",
                     norm->epsilon, ")"));
    return;
  }
}

/// Returns the batch counts (num_batches_tracked) in the metadata of an imported weights file; null
/// if there are none. Throws ConfigError unless they are `count` integers.
Json imported_counts(const trainer::SafetensorsFile& file, size_t count) {
  const Json& metadata = file.metadata();
  if (!metadata.is_object() || !metadata.contains(importer::kCountsKey)) return {};
  const Json& told = metadata[importer::kCountsKey];
  const Json counts =
      told.is_string() ? Json::parse(told.get<std::string>(), nullptr, false) : Json();
  const bool fits =
      counts.is_array() && counts.size() == count &&
      std::ranges::all_of(counts, [](const Json& json) { return json.is_number_integer(); });
  if (!fits)
    throw ConfigError(text(file.file().path().string(), ": metadata \"", importer::kCountsKey,
                           "\": expected a list of ", count, " integers, got ", shown(told)));
  return counts;
}

std::vector<int64_t> counts_of(const TrainedWeights& trained, size_t count) {
  if (const Json counts = imported_counts(trained.file(), count); counts.is_array())
    return counts.get<std::vector<int64_t>>();
  return std::vector<int64_t>(count, trained.step().value_or(0));
}

trainer::StoredTensor stored_values(const TrainedWeights& trained, const StateTensor& tensor) {
  const std::span<const int64_t> extents = tensor.shape.extents();
  return {.name = tensor.torchvision_name,
          .type = "F32",
          .shape = {extents.begin(), extents.end()},
          .bytes = static_cast<uint64_t>(tensor.shape.count()) * sizeof(float),
          .get = [&trained, name = tensor.poseidon_name](std::span<std::byte> to) {
            std::ranges::copy(std::as_bytes(std::span<const float>(trained.read(name))),
                              to.begin());
          }};
}

trainer::StoredTensor stored_count(const StateTensor& tensor, int64_t count) {
  return {.name = tensor.torchvision_name,
          .type = "I64",
          .shape = {},
          .bytes = sizeof count,
          .get = [count](std::span<std::byte> to) { std::memcpy(to.data(), &count, to.size()); }};
}

}  // namespace

TorchvisionReport export_torchvision(const TrainedWeights& trained,
                                     const TorchvisionExport& options, Log& log) {
  const net::Network& network = trained.network();
  const importer::TorchvisionArch& arch = options.arch.empty()
                                              ? importer::torchvision_arch_of(network.name())
                                              : importer::torchvision_arch(options.arch);
  const std::vector<StateTensor> state = importer::state_tensors(arch, network);
  warn_of_other_epsilon(network, arch, log);
  const auto norms =
      static_cast<size_t>(std::ranges::count_if(state, &StateTensor::counts_batches));
  const std::vector<int64_t> counts = counts_of(trained, norms);
  std::vector<trainer::StoredTensor> tensors;
  size_t norm = 0;
  for (const StateTensor& tensor : state)
    tensors.push_back(tensor.counts_batches() ? stored_count(tensor, counts[norm++])
                                              : stored_values(trained, tensor));
  AtomicFile file(options.output);
  trainer::write_safetensors(file, tensors, {{"format", "pt"}, {"producer", "poseidon"}});
  file.commit();
  return {.arch = std::string(arch.name), .tensors = tensors.size()};
}

}  // namespace poseidon::exporter
