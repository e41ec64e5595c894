#include "trainer/engine.h"

#include "core/error.h"
#include "core/memory.h"
#include "layers/cpu/cpu_layer.h"
#include "layers/cpu/update.h"

namespace poseidon::trainer {

namespace {

/// Where memory cannot be had, the user is told how much there is, and what would take less.
std::unique_ptr<net::Net> make_net(const Job& job, layers::LayerFactory& factory,
                                   const net::Net::Options& options) {
  const auto and_available = [](const OutOfMemory& error) {
    return text(error.what(), "; ", bytes_text(available_memory("/")), " are available");
  };
  try {
    return std::make_unique<net::Net>(*job.network, factory, options);
  } catch (const net::BatchTooLarge& error) {
    if (job.network->batch() == 1) throw OutOfMemory(and_available(error));
    throw OutOfMemory(and_available(error) + ": reduce " + job.config.batch_key());
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(and_available(error));
  }
}

}  // namespace

Engine::Engine(const Job& job, const net::Net::Options& options, Log& log)
    : device_(static_cast<int>(job.config.device.threads)),
      factory_(layers::cpu::make_cpu_factory(device_)),
      updater_(layers::cpu::make_cpu_updater()),
      net_(make_net(job, *factory_, options)) {
  for (const std::string& warning : net_->warnings()) log.warning(warning);
}

Json choices_json(const net::Choices& choices) {
  Json json = Json::object();
  for (const auto& [layer, choice] : choices) {
    layers::Choice copy = choice;
    json[layer] = write_fields([&](Fields& fields) { copy.describe(fields); });
  }
  return json;
}

net::Choices read_choices(const Json& json, const JsonPlace& place, const net::Network& network) {
  if (!json.is_object()) fail_at(place, "expected an object, got " + shown(json));
  std::vector<std::string> names;
  for (const net::Node& node : network.nodes()) names.push_back(node.definition->name);
  net::Choices choices;
  for (const auto& [layer, value] : json.items()) {
    if (std::find(names.begin(), names.end(), layer) == names.end())
      fail_at(place.at(layer),
              "network \"" + network.name() + "\" has no such layer" + suggestion(layer, names));
    layers::Choice& choice = choices[layer];
    read_fields(value, place.at(layer), [&choice](Fields& fields) { choice.describe(fields); });
  }
  return choices;
}

net::Choices choices_of(const Job& job) {
  const std::string& file = job.config.device.choices;
  if (file.empty()) return {};
  const Json json = read_json(file);
  const bool is_plan = json.is_object() && json.contains("choices");
  return read_choices(is_plan ? json["choices"] : json, {file, is_plan ? "/choices" : ""},
                      *job.network);
}

}  // namespace poseidon::trainer
