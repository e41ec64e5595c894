#include "trainer/state/run_tensors.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/opened_for_user.h"
#include "trainer/state/safetensors.h"

namespace poseidon::trainer {

namespace {

// The tensors are looked up at each call: their memory changes with the current version.

NamedTensor tensor_of(net::Net& net, const net::Parameter& parameter) {
  return {
      .name = parameter.name,
      .shape = parameter.spec.shape,
      .get =
          [&net, &parameter](std::span<float> out) {
            net.values().read_packed(parameter, parameter.value(), out);
          },
      .set = [&net, &parameter](
                 std::span<const float> values) { net.values().set_canonical(parameter, values); }};
}

NamedTensor tensor_of(net::Net& net, const net::Statistic& statistic) {
  return {.name = statistic.name,
          .shape = statistic.spec.shape,
          .get =
              [&net, &statistic](std::span<float> out) {
                net.device().read(std::as_bytes(statistic.value()), std::as_writable_bytes(out));
              },
          .set =
              [&net, &statistic](std::span<const float> values) {
                net.device().write(std::as_bytes(values),
                                   std::as_writable_bytes(statistic.value()));
              }};
}

NamedTensor tensor_of(net::Net& net, const Optimizer::State& state) {
  const net::Parameter& parameter = net.parameters()[state.parameter];
  return {.name = state.name,
          .shape = parameter.spec.shape,
          .get =
              [&net, &parameter, &state](std::span<float> out) {
                net.values().read_packed(parameter, state.versions.current(), out);
              },
          .set =
              [&net, &parameter, &state](std::span<const float> values) {
                net.values().write_packed(parameter, values, state.versions.current());
              }};
}

NamedTensor average_of(NamedTensor tensor, net::Net& net, const Averages& averages, size_t index) {
  const net::Parameter& parameter = net.parameters()[index];
  tensor.name = Averages::name_of(tensor.name);
  tensor.get = [&, index](std::span<float> out) {
    net.values().read_packed(parameter, averages.of_parameter(index), out);
  };
  tensor.set = [&, index](std::span<const float> values) {
    net.values().write_packed(parameter, values, averages.of_parameter(index));
  };
  return tensor;
}

NamedTensor average_of_statistic(NamedTensor tensor, net::Net& net, const Averages& averages,
                                 size_t index) {
  tensor.name = Averages::name_of(tensor.name);
  tensor.get = [&, index](std::span<float> out) {
    net.device().read(std::as_bytes(averages.of_statistic(index)), std::as_writable_bytes(out));
  };
  tensor.set = [&, index](std::span<const float> values) {
    net.device().write(std::as_bytes(values), std::as_writable_bytes(averages.of_statistic(index)));
  };
  return tensor;
}

void add_averages(net::Net& net, const Averages& averages, RunTensors& tensors) {
  const std::vector<NamedTensor> followed = tensors.weights;
  for (size_t i = 0; i < followed.size(); ++i)
    if (i >= tensors.parameters)
      tensors.weights.push_back(
          average_of_statistic(followed[i], net, averages, i - tensors.parameters));
    else if (net.parameters()[i].learned)
      tensors.weights.push_back(average_of(followed[i], net, averages, i));
}

/// Where a file has what a tensor is set to; null where it does not.
const SafetensorsFile::Entry* source_of(const NamedTensor& tensor, const SafetensorsFile& file,
                                        WeightsTaken taken) {
  const auto* average =
      taken == WeightsTaken::kAverages ? file.find(Averages::name_of(tensor.name)) : nullptr;
  return average != nullptr ? average : file.find(tensor.name);
}

/// Whether a name in a file is that of a tensor, or of its average, of which one is taken.
bool means(const NamedTensor& tensor, const std::string& name) {
  return tensor.name == name || Averages::name_of(tensor.name) == name;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < std::min(kMost, names.size()); ++i) {
    if (i > 0) out += ", ";
    out += names[i];
  }
  if (names.size() > kMost) out += text(" and ", names.size() - kMost, " more");
  return out;
}

}  // namespace

RunTensors weights_of(net::Net& net) {
  RunTensors tensors;
  for (const net::Parameter& parameter : net.parameters())
    tensors.weights.push_back(tensor_of(net, parameter));
  tensors.parameters = tensors.weights.size();
  for (const net::Statistic& statistic : net.parameters().statistics())
    tensors.weights.push_back(tensor_of(net, statistic));
  return tensors;
}

RunTensors tensors_of(net::Net& net, Optimizer& optimizer) {
  RunTensors tensors = weights_of(net);
  if (const Averages* averages = optimizer.averages()) add_averages(net, *averages, tensors);
  for (const Optimizer::State& state : optimizer.states())
    tensors.optimizer.push_back(tensor_of(net, state));
  return tensors;
}

RunTensors tensors_of(net::Net& net, Optimizer& optimizer, SumsInFlight& sums) {
  RunTensors tensors = tensors_of(net, optimizer);
  tensors.sums = sums.tensors();
  return tensors;
}

void refuse_non_finite(const RunTensors& tensors, int64_t in_flight, int64_t step) {
  std::vector<float> values;
  const auto refuse = [&](const std::vector<NamedTensor>& some) {
    for (const NamedTensor& tensor : some) {
      values.resize(tensor.count());
      tensor.get(values);
      if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); }))
        throw RunError(text("step ", step, ": \"", tensor.name,
                            "\" holds a value that is not finite; no checkpoint is made of it"));
    }
  };
  refuse(tensors.weights);
  for (int64_t late = 0; late < in_flight; ++late) refuse(tensors.sums[static_cast<size_t>(late)]);
}

void check_weights_file(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw ConfigError("--weights " + file.string() + ": no such file");
  opened_for_user([&] { return SafetensorsFile(file); });
}

MatchReport load_weights(const std::filesystem::path& path, const RunTensors& tensors,
                         WeightsTaken taken) {
  check_weights_file(path);
  const SafetensorsFile file = opened_for_user([&] { return SafetensorsFile(path); });
  MatchReport match;
  for (const NamedTensor& tensor : tensors.weights) {
    if (Averages::is_name(tensor.name)) continue;
    const auto* entry = source_of(tensor, file, taken);
    if (entry == nullptr) {
      match.missing.push_back(tensor.name);
    } else if (!std::ranges::equal(entry->shape, tensor.shape.extents())) {
      match.different.push_back(text(tensor.name, " (", extents_text(entry->shape),
                                     " in the file, ", extents_text(tensor.shape.extents()),
                                     " in the network)"));
    } else {
      tensor.set(file.read(*entry));
      ++match.matched;
      match.averages += entry->name == tensor.name ? 0 : 1;
    }
  }
  for (const auto& entry : file.entries())
    if (std::ranges::none_of(tensors.weights,
                             [&](const NamedTensor& tensor) { return means(tensor, entry.name); }))
      match.unused.push_back(entry.name);
  if (match.matched == 0)
    throw ConfigError(text("--weights ", path.string(), ": none of its ", file.entries().size(),
                           " tensors has the name and shape of one of the network's ",
                           tensors.weights.size()));
  return match;
}

void report_match(const std::filesystem::path& file, const MatchReport& match, Log& log) {
  const std::string name = file.string();
  log.info(text(name, ": ", match.matched, " tensors taken",
                match.averages > 0 ? text(", ", match.averages, " of them averages") : ""));
  if (!match.different.empty())
    log.warning(name + ": another shape, so left at first values: " + listed(match.different));
  if (!match.missing.empty())
    log.warning(name + ": not in the file, so left at first values: " + listed(match.missing));
  if (!match.unused.empty())
    log.warning(name + ": not in the network, so not used: " + listed(match.unused));
}

}  // namespace poseidon::trainer
