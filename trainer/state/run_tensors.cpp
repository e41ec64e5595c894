#include "trainer/state/run_tensors.h"

#include <algorithm>
#include <cmath>

#include "core/as_config_error.h"
#include "core/error.h"
#include "core/name_list.h"
#include "trainer/state/safetensors.h"

namespace poseidon::trainer {

namespace {

// get and set request the memory of the tensor at each call, because it depends on the current
// version.

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

NamedTensor ema_of(NamedTensor tensor, net::Net& net, const Ema& averages, size_t index) {
  const net::Parameter& parameter = net.parameters()[index];
  tensor.name = Ema::name_of(tensor.name);
  tensor.get = [&, index](std::span<float> out) {
    net.values().read_packed(parameter, averages.of_parameter(index), out);
  };
  tensor.set = [&, index](std::span<const float> values) {
    net.values().write_packed(parameter, values, averages.of_parameter(index));
  };
  return tensor;
}

NamedTensor ema_of_statistic(NamedTensor tensor, net::Net& net, const Ema& averages, size_t index) {
  tensor.name = Ema::name_of(tensor.name);
  tensor.get = [&, index](std::span<float> out) {
    net.device().read(std::as_bytes(averages.of_statistic(index)), std::as_writable_bytes(out));
  };
  tensor.set = [&, index](std::span<const float> values) {
    net.device().write(std::as_bytes(values), std::as_writable_bytes(averages.of_statistic(index)));
  };
  return tensor;
}

void add_ema(net::Net& net, const Ema& averages, RunTensors& tensors) {
  const std::vector<NamedTensor> followed = tensors.weights;
  for (size_t i = 0; i < followed.size(); ++i)
    if (i >= tensors.parameters)
      tensors.weights.push_back(
          ema_of_statistic(followed[i], net, averages, i - tensors.parameters));
    else if (net.parameters()[i].learned)
      tensors.weights.push_back(ema_of(followed[i], net, averages, i));
}

/// The entry of the file from which `tensor` is set; null if the file has no such entry.
const SafetensorsFile::Entry* source_of(const NamedTensor& tensor, const SafetensorsFile& file,
                                        WeightsTaken taken) {
  const auto* average =
      taken == WeightsTaken::kAverages ? file.find(Ema::name_of(tensor.name)) : nullptr;
  return average != nullptr ? average : file.find(tensor.name);
}

/// Whether `name` is the name of the tensor or of its EMA. load_weights() loads only one of them.
/// The other one does not count as unused.
bool means(const NamedTensor& tensor, const std::string& name) {
  return tensor.name == name || Ema::name_of(tensor.name) == name;
}

void refuse_other_type(const std::filesystem::path& file, const SafetensorsFile::Entry& entry) {
  if (!holds_floats(entry.type))
    throw ConfigError(text("--weights ", file.string(), ": tensor \"", entry.name,
                           "\": expected dtype F32, F16 or BF16, got ", entry.type));
}

/// Whether the file has at least one tensor with a name of the network.
bool has_any(const SafetensorsFile& file, const RunTensors& tensors) {
  return std::ranges::any_of(tensors.weights, [&](const NamedTensor& tensor) {
    return file.find(tensor.name) != nullptr;
  });
}

/// ", 2 of them converted from F16 or BF16 to F32"; "" if there is none.
std::string conversion_text(const MatchReport& match) {
  return match.converted == 0
             ? ""
             : text(", ", match.converted, " of them converted from F16 or BF16 to F32");
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
  if (const Ema* averages = optimizer.averages()) add_ema(net, *averages, tensors);
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
                            "\" has a value that is not finite; no checkpoint is written"));
    }
  };
  refuse(tensors.weights);
  for (int64_t late = 0; late < in_flight; ++late) refuse(tensors.sums[static_cast<size_t>(late)]);
}

std::filesystem::path weights_file_of(const std::filesystem::path& named, Log& log) {
  constexpr const char* kImportedWeights = "weights.safetensors";
  if (!std::filesystem::is_directory(named)) return named;
  if (has_checkpoint(named))
    return as_config_error([&] { return open_checkpoint(named, log)->weights_file(); });
  if (std::filesystem::exists(named / kImportedWeights)) return named / kImportedWeights;
  throw ConfigError("--weights " + named.string() +
                    ": expected a safetensors file, a run directory with a checkpoint, or a "
                    "folder with " +
                    kImportedWeights);
}

void check_weights_file(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file))
    throw ConfigError("--weights " + file.string() + ": no such file");
  as_config_error([&] { return SafetensorsFile(file); });
}

MatchReport load_weights(const std::filesystem::path& path, const RunTensors& tensors,
                         WeightsTaken taken) {
  check_weights_file(path);
  SafetensorsFile file = as_config_error([&] { return SafetensorsFile(path); });
  MatchReport match;
  if (!has_any(file, tensors)) match.unwrapped = file.remove_wrappers();
  for (const NamedTensor& tensor : tensors.weights) {
    if (Ema::is_name(tensor.name)) continue;
    const auto* entry = source_of(tensor, file, taken);
    if (entry == nullptr) {
      match.missing.push_back(tensor.name);
    } else if (!std::ranges::equal(entry->shape, tensor.shape.extents())) {
      match.different.push_back(text(tensor.name, " (", extents_text(entry->shape),
                                     " in the file, ", extents_text(tensor.shape.extents()),
                                     " in the network)"));
    } else {
      refuse_other_type(path, *entry);
      tensor.set(file.read(*entry));
      ++match.matched;
      match.converted += entry->type == "F32" ? 0 : 1;
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
  if (!match.unwrapped.empty())
    log.info(text(name, ": removed the prefix \"", match.unwrapped,
                  "\" of PyTorch's wrappers from the names of its tensors"));
  log.info(text(name, ": ", match.matched, " tensors loaded",
                match.averages > 0 ? text(", ", match.averages, " of them EMAs") : "",
                conversion_text(match)));
  if (!match.different.empty())
    log.warning(name + ": other shape in the file, so kept at initial values: " +
                name_list(match.different));
  if (!match.missing.empty())
    log.warning(name + ": not in the file, so kept at initial values: " + name_list(match.missing));
  if (!match.unused.empty())
    log.warning(name + ": not in the network, so ignored: " + name_list(match.unused));
}

}  // namespace poseidon::trainer
