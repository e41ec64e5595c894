#include "trainer/state/resume.h"

#include <algorithm>

#include "core/as_config_error.h"
#include "core/counted.h"
#include "core/error.h"
#include "trainer/state/safetensors.h"

namespace poseidon::trainer {

namespace {

/// The settings that affect results and differ between the checkpoint's job (`before`) and this job
/// (`now`).
std::string changes(const Json& before, const Json& now) {
  std::string out;
  for (const Json& change : Json::diff(before, now)) {
    const auto path = change["path"].get<std::string>();
    if (path.starts_with("/train/") && path.ends_with("_every")) continue;
    if (path == "/device/type") continue;  // warn_of_other_devices() compares the workers' devices
    out += (out.empty() ? "" : ", ") + path;
  }
  return out;
}

/// "\"lenet\" (8 layers)": the network in a checkpoint's config.
std::string network_text(const Json& network) {
  const bool known = network.is_object() && network.contains("name") &&
                     network["name"].is_string() && network.contains("layers");
  if (!known) return "an unknown network";
  return text(network["name"], " (", counted(network["layers"].size(), "layer"), ")");
}

/// Throws ConfigError if the checkpoint lacks a weight of the network, or has it with another
/// shape.
void refuse_other_network(const Checkpoint& checkpoint, const Job& job,
                          const std::filesystem::path& named) {
  const SafetensorsFile weights(checkpoint.weights_file());
  for (const net::Node& node : job.network->nodes())
    for (const layers::ParameterSpec& spec : node.parameters()) {
      const std::string name = node.definition->name + "." + spec.name;
      const auto* entry = weights.find(name);
      if (entry != nullptr && std::ranges::equal(entry->shape, spec.shape.extents())) continue;
      throw ConfigError(text(
          "--resume ", named.string(), ": a checkpoint of another network, ",
          network_text(checkpoint.state().config.value("network", Json())), ": its \"", name, "\" ",
          entry == nullptr ? "is missing" : "has another shape", ", expected ", spec.shape.text(),
          " as in network \"", job.network->name(), "\" (--weights loads the tensors that match)"));
    }
}

}  // namespace

std::unique_ptr<Checkpoint> resumed_checkpoint(const Job& job, const std::filesystem::path& named,
                                               Log& log) {
  if (named.empty()) return nullptr;
  return as_config_error([&] {
    std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(named, log);
    refuse_other_network(*checkpoint, job, named);
    return checkpoint;
  });
}

std::unique_ptr<Checkpoint> intact_checkpoint(const Job& job, const std::filesystem::path& newest,
                                              int64_t max_in_flight, Log& log) {
  try {
    std::unique_ptr<Checkpoint> found = resumed_checkpoint(job, newest, log);
    const int64_t in_flight = found->state().in_flight;
    if (in_flight <= max_in_flight) return found;
    throw ConfigError(text(found->weights_file().string(), ": carries the sums of ", in_flight,
                           " steps, expected at most ", max_in_flight));
  } catch (const ConfigError& error) {
    log.warning(text("no checkpoint is intact: ", error.what(),
                     "; the job restarts from its initial values"));
    return nullptr;
  }
}

void refuse_other_batch(const RunState& state, const Job& job, const std::filesystem::path& named) {
  const int64_t batch = job.config.global_batch();
  if (state.samples == state.step * batch) return;
  throw ConfigError(text(named.string(), ": ", state.samples, " samples were used in ", state.step,
                         " steps, but this job has batches of ", batch,
                         ": expected the batch size of the checkpoint"));
}

ResumedAt resumed_at(const RunState& state) {
  return {.step = state.step, .learning_rate = state.learning_rate};
}

void warn_of_changes(const RunState& state, const Job& job, Log& log) {
  const std::string changed = changes(state.config, job.result_settings_json());
  if (!changed.empty())
    log.warning(
        "the job was changed since the checkpoint, so the result differs from that of an "
        "uninterrupted run: " +
        changed);
}

void warn_of_other_data(const RunState& state, const std::string& dataset, Log& log) {
  if (state.dataset != dataset)
    log.warning("the training set is not the one that the checkpoint was made with");
}

}  // namespace poseidon::trainer
