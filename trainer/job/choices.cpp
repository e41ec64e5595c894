#include "trainer/job/choices.h"

#include <algorithm>

#include "core/error.h"
#include "core/fields.h"

namespace poseidon::trainer {

Json choices_json(const net::Choices& choices) {
  Json json = Json::object();
  for (const auto& [layer, choice] : choices) {
    layers::AlgorithmChoice copy = choice;
    json[layer] = write_fields([&](Fields& fields) { copy.describe(fields); });
  }
  return json;
}

net::Choices read_choices(const Json& json, const JsonPath& place, const net::Network& network) {
  if (!json.is_object()) fail_at(place, "expected an object, got " + shown(json));
  std::vector<std::string> names;
  for (const net::Node& node : network.nodes()) names.push_back(node.definition->name);
  net::Choices choices;
  for (const auto& [layer, value] : json.items()) {
    if (std::find(names.begin(), names.end(), layer) == names.end())
      fail_at(place.at(layer),
              "network \"" + network.name() + "\" has no such layer" + suggestion(layer, names));
    layers::AlgorithmChoice& choice = choices[layer];
    read_fields(value, place.at(layer), [&choice](Fields& fields) { choice.describe(fields); });
  }
  return choices;
}

Json implementations_json(const layers::Implementations& implementations) {
  Json json = Json::object();
  const auto add = [&json](const char* pass, const std::string& name) {
    if (!name.empty()) json[pass] = name;
  };
  add("forward", implementations.forward);
  add("backward_data", implementations.backward_data);
  add("backward_weights", implementations.backward_weights);
  return json;
}

Json implementations_json(net::Net& net) {
  Json json = Json::object();
  for (const net::OperationInfo& operation : net.diagnosis().operation_info())
    json[operation.name] = implementations_json(operation.implementations);
  return json;
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
