#include "trainer/state/tensor_check.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "trainer/step/ema.h"

namespace poseidon::trainer {

namespace {

const JsonPath kPlace{"a worker's list of tensors", ""};

struct Entry {
  std::string name;
  std::vector<int64_t> shape;
  bool operator==(const Entry&) const = default;

  void describe(Fields& fields) {
    fields.text("name", name, "of the tensor", Presence::kRequired);
    fields.integers("shape", shape, at_least(1), "its extents", Presence::kRequired);
  }
};

struct List {
  int64_t parameters = 0, sum_steps = 0;
  std::vector<Entry> weights, optimizer, sums;

  void describe(Fields& fields) {
    fields.integer("parameters", parameters, at_least(0), "among weights", Presence::kRequired);
    fields.integer("sum_steps", sum_steps, at_least(0), "in flight", Presence::kRequired);
    for (const auto& [key, entries] :
         {std::pair("weights", &weights), {"optimizer", &optimizer}, {"sums", &sums}})
      fields.objects(
          key, entries->size(), [entries = entries](size_t size) { entries->resize(size); },
          [entries = entries](Fields& f, size_t i) { (*entries)[i].describe(f); }, "in order",
          Presence::kRequired);
  }
};

std::vector<int64_t> extents(const Shape& shape) {
  return {shape.extents().begin(), shape.extents().end()};
}

/// The weights of a network: parameters, then statistics.
List list_of(const net::Network& network) {
  List list;
  for (const net::Node& node : network.nodes())
    for (const layers::ParameterSpec& spec : node.parameters())
      list.weights.push_back({node.definition->name + "." + spec.name, extents(spec.shape)});
  list.parameters = static_cast<int64_t>(list.weights.size());
  for (const net::Node& node : network.nodes())
    for (const layers::StatisticSpec& spec : node.definition->statistics())
      list.weights.push_back({node.definition->name + "." + spec.name, extents(spec.shape)});
  return list;
}

/// Checks that each entry is in `possible`, with its shape, and that none occurs twice.
void check_entries(const std::vector<Entry>& entries,
                   std::map<std::string, std::vector<int64_t>> possible, const char* key) {
  for (const Entry& entry : entries) {
    const auto found = possible.find(entry.name);
    if (found == possible.end() || found->second != entry.shape)
      fail_at(kPlace.at(key), text("expected each tensor of the network once, got ",
                                   shown(entry.name), " twice, or with another name or shape"));
    possible.erase(found);
  }
}

}  // namespace

void check_tensors(const Json& json, const net::Network& network, const OptimizerConfig& optimizer,
                   int64_t steps) {
  List list;
  read_fields(json, kPlace, [&](Fields& fields) { list.describe(fields); });
  const List known = list_of(network);
  const size_t own = std::min(known.weights.size(), list.weights.size());
  if (!std::ranges::equal(std::span(list.weights).first(own), known.weights) ||
      list.parameters != known.parameters)
    fail_at(kPlace.at("weights"), "expected the weights of network \"" + network.name() + "\"");
  if (list.sum_steps > steps)
    fail_at(kPlace.at("sum_steps"),
            text("expected at most ", steps, " steps, got ", list.sum_steps));
  std::map<std::string, std::vector<int64_t>> averages, states, sums;
  for (const Entry& weight : known.weights) {
    if (optimizer.average_decay > 0) averages[Ema::name_of(weight.name)] = weight.shape;
    for (const char* state : optimizer.state_names())
      states[weight.name + "." + state] = weight.shape;
    for (int64_t step = 0; step < list.sum_steps; ++step)
      sums[text("sum.", step, ".", weight.name)] = weight.shape;
  }
  check_entries({list.weights.begin() + static_cast<std::ptrdiff_t>(own), list.weights.end()},
                std::move(averages), "weights");
  check_entries(list.optimizer, std::move(states), "optimizer");
  check_entries(list.sums, std::move(sums), "sums");
}

}  // namespace poseidon::trainer
