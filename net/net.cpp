#include "net/net.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/error.h"
#include "core/memory.h"
#include "core/staged.h"
#include "net/program.h"
#include "net/tensor_memory.h"

namespace poseidon::net {

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

/// Kinds of tensors, for TensorMemory; those of an optimizer come after them.
constexpr size_t kValues = 0, kNextValues = 1, kGradients = 2;

/// FNV-1a: a name as a number, the same on every machine.
uint64_t name_hash(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

bool all_finite(const std::vector<float>& values) {
  bool finite = true;
  for (const float value : values) finite = finite && std::isfinite(value);
  return finite;
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

struct Net::State {
  State(const Network& definition, layers::LayerFactory& factory, const Options& options)
      : device(factory.device()),
        network(definition),
        versions(options.versions),
        program(definition, factory,
                {.training = options.training,
                 .choices = options.choices,
                 .keep = options.keep,
                 .factored = options.factored,
                 .factor_rows = options.factor_rows}),
        call_of_layer(definition.nodes().size()),
        parameters_of_layer(definition.nodes().size()),
        statistics_of_layer(definition.nodes().size()) {
    check(versions == 1 || versions == 2, "a net has one version of its parameters or two");
    list_parameters();
    list_statistics();
    if (options.takes_memory) take_memory();
    find_summed_layers();
  }

  void list_parameters() {
    for (const Call* call : in_network_order()) {
      const std::vector<layers::ParameterSpec> specs = definition_of(*call).parameters();
      for (size_t i = 0; i < specs.size(); ++i) {
        parameters_of_layer[at(call->node)].push_back(static_cast<int>(parameters.size()));
        layer_of_parameter.push_back(call->layer.get());
        parameters.push_back(
            {.name = definition_of(*call).name + "." + specs[i].name,
             .layer = call->node,
             .index = static_cast<int>(i),
             .spec = specs[i],
             .learned = call->runs_backward && specs[i].learning_rate_multiplier != 0,
             .value = {},
             .next = {},
             .gradient = {}});
      }
    }
  }

  void list_statistics() {
    for (const Call* call : in_network_order())
      for (const layers::StatisticSpec& spec : definition_of(*call).statistics()) {
        statistics_of_layer[at(call->node)].push_back(static_cast<int>(statistics.size()));
        statistics.push_back({.name = definition_of(*call).name + "." + spec.name,
                              .layer = call->node,
                              .spec = spec,
                              .value = {},
                              .next = {},
                              .contribution = {}});
      }
  }

  size_t packed_count(const Parameter& parameter) const {
    return static_cast<size_t>(
        layer_of_parameter[index_of(parameter)]->packed_count(parameter.index));
  }

  static size_t count_of(const Statistic& statistic) {
    return static_cast<size_t>(statistic.spec.shape.count());
  }

  /// Floats of all parameters, and of those that are learned.
  size_t parameter_floats() const {
    size_t floats = 0;
    for (const Parameter& parameter : parameters)
      floats += TensorMemory::padded(packed_count(parameter));
    return floats;
  }
  size_t learned_floats() const {
    size_t floats = 0;
    for (const Parameter& parameter : parameters)
      if (parameter.learned) floats += TensorMemory::padded(packed_count(parameter));
    return floats;
  }
  /// Of one version.
  size_t statistic_floats() const {
    size_t floats = 0;
    for (const Statistic& statistic : statistics)
      floats += TensorMemory::padded(count_of(statistic));
    return floats;
  }

  NetMemory memory() const {
    const size_t tracked = TensorMemory::bytes(statistic_floats(), 0);
    return {.parameters = TensorMemory::bytes(parameter_floats(), kValues),
            .second_version =
                versions == 2 ? TensorMemory::bytes(learned_floats(), kNextValues) + tracked : 0,
            .gradients = training() ? TensorMemory::bytes(parameter_floats(), kGradients) : 0,
            .statistics = 2 * tracked,
            .activations = program.arena_bytes() - program.scratch_bytes(),
            .scratch = program.scratch_bytes()};
  }

  void take_memory() {
    program.take_memory();
    values = taken(parameter_floats(), kValues, "parameters");
    if (versions == 2) next_values = taken(learned_floats(), kNextValues, "a second version");
    if (training()) gradients = taken(parameter_floats(), kGradients, "gradients");
    const auto tensors = static_cast<size_t>(versions) + 1;
    statistic_memory =
        TensorMemory(device, tensors * statistic_floats(), kValues, "running statistics");
    labels = device.allocate(static_cast<size_t>(network.batch()) * sizeof(int32_t), Place::kDevice,
                             "labels");
    for (Parameter& parameter : parameters) {
      const size_t count = packed_count(parameter);
      parameter.value = values.take(count);
      parameter.next =
          parameter.learned && versions == 2 ? next_values.take(count) : parameter.value;
      if (training()) parameter.gradient = gradients.take(count);
    }
    for (Statistic& statistic : statistics) {
      const size_t count = count_of(statistic);
      statistic.value = statistic_memory.take(count);
      statistic.next = versions == 2 ? statistic_memory.take(count) : statistic.value;
      statistic.contribution = statistic_memory.take(count);
    }
    bind();
  }

  /// Memory for the tensors of all parameters. Names the largest where it cannot be had.
  TensorMemory taken(size_t floats, size_t kind, const char* what) const {
    try {
      return {device, floats, kind, what};
    } catch (const OutOfMemory&) {
      const auto size = [this](const Parameter& parameter) { return packed_count(parameter); };
      const Parameter& largest = *std::ranges::max_element(parameters, {}, size);
      throw OutOfMemory(text(network.file(), ": ", bytes_text(size(largest) * sizeof(float)),
                             " for \"", largest.name, "\", the largest part of ",
                             bytes_text(TensorMemory::bytes(floats, kind)), " for ", what,
                             ", cannot be had"));
    }
  }

  void bind() {
    for (Call& call : program.calls()) {
      if (call.node < 0) continue;
      call_of_layer[at(call.node)] = &call;
      for (int index : parameters_of_layer[at(call.node)])
        call.memory.parameters.push_back(
            {parameters[at(index)].value.data(), parameters[at(index)].gradient.data()});
      for (int index : statistics_of_layer[at(call.node)])
        call.memory.statistics.push_back(
            {statistics[at(index)].value.data(), statistics[at(index)].contribution.data()});
    }
  }

  void find_summed_layers() {
    for (const Call& call : program.calls())
      if (call.node >= 0 && (announces(call.node) || !statistics_of_layer[at(call.node)].empty()))
        summed_layers.push_back(call.node);
  }

  void flip(int layer) {
    if (versions == 1) return;
    layers::Bindings& memory = call_of_layer[at(layer)]->memory;
    for (size_t i = 0; i < memory.parameters.size(); ++i) {
      Parameter& parameter = parameters[at(parameters_of_layer[at(layer)][i])];
      std::swap(parameter.value, parameter.next);
      memory.parameters[i].value = parameter.value.data();
    }
    for (size_t i = 0; i < memory.statistics.size(); ++i) {
      Statistic& statistic = statistics[at(statistics_of_layer[at(layer)][i])];
      std::swap(statistic.value, statistic.next);
      memory.statistics[i].value = statistic.value.data();
    }
  }

  /// The calls that are layers, in the network's order, which fusion may have changed.
  std::vector<Call*> in_network_order() {
    std::vector<Call*> owners;
    for (Call& call : program.calls())
      if (call.node >= 0) owners.push_back(&call);
    std::stable_sort(owners.begin(), owners.end(),
                     [](const Call* a, const Call* b) { return a->node < b->node; });
    return owners;
  }

  const layers::Definition& definition_of(const Call& call) const {
    return *network.nodes()[at(call.node)].definition;
  }

  bool training() const {
    return std::any_of(program.calls().begin(), program.calls().end(),
                       [](const Call& call) { return call.runs_backward; });
  }

  bool has_tensors(const Call& call) const {
    return call.node >= 0 && (!parameters_of_layer[at(call.node)].empty() ||
                              !statistics_of_layer[at(call.node)].empty());
  }

  bool announces(int layer) const {
    return std::ranges::any_of(parameters_of_layer[at(layer)],
                               [&](int index) { return parameters[at(index)].learned; });
  }

  const layers::Layer& layer_of(const Parameter& parameter) const {
    return *layer_of_parameter[index_of(parameter)];
  }

  /// The step as layers see it: with its labels where they can read them.
  layers::StepContext on_device(layers::StepContext step) {
    const std::span<int32_t> there = labels.as<int32_t>().first(step.labels.size());
    if (!step.labels.empty())
      device.write(std::as_bytes(step.labels), std::as_writable_bytes(there));
    step.labels = there;
    return step;
  }

  std::vector<float> read(std::span<const float> there) const {
    std::vector<float> out(there.size());
    device.read(there, out);
    return out;
  }
  std::vector<float> read(const Tensor& tensor) const {
    if (!tensor) return {};
    return read({tensor.data, static_cast<size_t>(tensor.blocking().count())});
  }

  size_t index_of(const Parameter& parameter) const {
    return static_cast<size_t>(&parameter - parameters.data());
  }

  Device& device;
  const Network& network;
  int versions;
  Program program;
  TensorMemory values, next_values, gradients, statistic_memory;
  Buffer labels;  ///< of the batch that is computed
  std::vector<Parameter> parameters;
  std::vector<layers::Layer*> layer_of_parameter;
  std::vector<Statistic> statistics;
  std::vector<Call*> call_of_layer;                                        ///< by node
  std::vector<std::vector<int>> parameters_of_layer, statistics_of_layer;  ///< by node
  std::vector<int> summed_layers;
  TraceRecorder* trace = nullptr;
};

Net::Net(const Network& network, layers::LayerFactory& factory, const Options& options)
    : state_(std::make_unique<State>(network, factory, options)) {}

Net::~Net() = default;

const Shape& Net::input_shape() const { return state_->network.input(); }

void Net::set_input(std::span<const float> values) {
  const Tensor input = state_->program.input();
  const std::span<float> memory(input.data, static_cast<size_t>(input.shape.count()));
  check(values.size() == memory.size(), "a batch is set whole");
  state_->device.write(std::as_bytes(values), std::as_writable_bytes(memory));
}

Device& Net::device() const { return state_->device; }

void Net::forward(const layers::StepContext& host_step, const Gate& gate) {
  const layers::StepContext step = state_->on_device(host_step);
  TraceRecorder* trace = step.phase == layers::Phase::kTrain ? state_->trace : nullptr;
  for (Call& call : state_->program.calls()) {
    if (gate && state_->has_tensors(call)) gate(call.node);
    const TraceScope span(trace, call.labels.forward);
    call.layer->forward(step, call.memory);
  }
}

void Net::backward(const layers::StepContext& host_step, const OnGradient& on_gradient,
                   const BetweenLayers& between_layers) {
  const layers::StepContext step = state_->on_device(host_step);
  std::vector<Call>& calls = state_->program.calls();
  for (size_t i = calls.size(); i-- > 0;) {
    Call& call = calls[i];
    if (!call.runs_backward) continue;
    const bool announced = on_gradient && call.node >= 0 && state_->announces(call.node);
    {
      const TraceScope span(state_->trace, call.labels.backward);
      // Factors leave before the gradient of the input is computed.
      if (call.gives_factors) call.layer->write_factors(call.memory, call.factors);
      if (call.gives_factors && announced) on_gradient(call.node);
      call.layer->backward(step, call.memory);
    }
    if (!call.gives_factors && announced) on_gradient(call.node);
    if (between_layers) between_layers();
  }
}

std::optional<layers::FactorShape> Net::factor_shape(int layer) const {
  const Call* call = state_->call_of_layer[at(layer)];
  if (call == nullptr || !call->gives_factors) return std::nullopt;
  return state_->definition_of(*call).factors();
}

void Net::set_factor_memory(int layer, const layers::FactorMemory& memory) {
  state_->call_of_layer[at(layer)]->factors = memory;
}

void Net::rebuild(int layer, const layers::FactorMemory& stacked,
                  const layers::GradientSink* sink) {
  Call& call = *state_->call_of_layer[at(layer)];
  const TraceScope span(state_->trace, call.labels.rebuild);
  call.layer->rebuild(stacked, call.memory, sink);
}

std::span<Parameter> Net::parameters() { return state_->parameters; }
std::span<Statistic> Net::statistics() { return state_->statistics; }
std::span<const int> Net::parameters_of(int layer) const {
  return state_->parameters_of_layer[at(layer)];
}
std::span<const int> Net::statistics_of(int layer) const {
  return state_->statistics_of_layer[at(layer)];
}
std::span<const int> Net::summed_layers() const { return state_->summed_layers; }
bool Net::announces(int layer) const { return state_->announces(layer); }
int Net::versions() const { return state_->versions; }
void Net::flip(int layer) { state_->flip(layer); }

void Net::initialize(uint64_t seed) {
  for (const Parameter& parameter : state_->parameters) {
    std::vector<float> canonical(static_cast<size_t>(parameter.spec.shape.count()));
    RandomStream random(seed, RandomPurpose::kInitialization, name_hash(parameter.name), 0);
    parameter.spec.filler.fill(canonical, parameter.spec.fan_in, random);
    set_canonical(parameter, canonical);
  }
  for (const Statistic& statistic : state_->statistics) {
    const std::vector<float> initial(statistic.value.size(), statistic.spec.initial);
    state_->device.write(std::as_bytes(std::span(initial)),
                         std::as_writable_bytes(statistic.value));
  }
}

std::vector<float> Net::canonical(const Parameter& parameter) const {
  std::vector<float> out(static_cast<size_t>(parameter.spec.shape.count()));
  read_packed(parameter, parameter.value, out);
  return out;
}

void Net::set_canonical(const Parameter& parameter, std::span<const float> values) {
  check(static_cast<int64_t>(values.size()) == parameter.spec.shape.count(),
        "a parameter is set whole");
  write_packed(parameter, values, parameter.value);
}

void Net::write_packed(const Parameter& parameter, std::span<const float> canonical,
                       std::span<float> packed) const {
  const StagedInput staged(state_->device, canonical);
  state_->layer_of(parameter).pack(parameter.index, staged.memory().data(), packed.data());
}

void Net::read_packed(const Parameter& parameter, std::span<const float> packed,
                      std::span<float> canonical) const {
  StagedOutput staged(state_->device, canonical);
  state_->layer_of(parameter).unpack(parameter.index, packed.data(), staged.memory().data());
  staged.finish();
}

void Net::canonical_gradient(const Parameter& parameter, std::span<float> out) const {
  check(static_cast<int64_t>(out.size()) == parameter.spec.shape.count(),
        "a gradient is read whole");
  state_->layer_of(parameter).unpack(parameter.index, parameter.gradient.data(), out.data());
}

void Net::canonical_value(const Parameter& parameter, std::span<float> out) const {
  check(static_cast<int64_t>(out.size()) == parameter.spec.shape.count(),
        "a parameter is read whole");
  state_->layer_of(parameter).unpack(parameter.index, parameter.value.data(), out.data());
}

void Net::gradient_from_canonical(const Parameter& parameter, std::span<const float> values) {
  check(static_cast<int64_t>(values.size()) == parameter.spec.shape.count(),
        "a gradient is set whole");
  state_->layer_of(parameter).pack(parameter.index, values.data(), parameter.gradient.data());
}

void Net::give_gradient(const Parameter& parameter, std::span<const float> canonical,
                        const layers::GradientSink& sink) {
  const Call& call = *state_->call_of_layer[at(parameter.layer)];
  call.layer->give_gradient(parameter.index, canonical.data(), call.memory, sink);
}

bool Net::canonical_is_packed(const Parameter& parameter) const {
  return state_->layer_of(parameter).packed_is_canonical(parameter.index);
}

std::vector<Net::Loss> Net::read_losses() const {
  std::vector<Loss> out;
  for (const Call& call : state_->program.calls()) {
    if (call.node < 0 || !state_->definition_of(call).is_loss()) continue;
    const Tensor& result = call.memory.output;
    out.push_back({state_->definition_of(call).name, state_->definition_of(call).loss_weight(),
                   state_->read(result)});
  }
  return out;
}

std::vector<float> Net::output(const std::string& layer) const {
  const auto& nodes = state_->network.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].definition->name != layer) continue;
    const Tensor kept = state_->program.kept_output(static_cast<int>(i));
    check(static_cast<bool>(kept), "only the output of a layer named in Options::keep can be read");
    const Blocking blocking = kept.blocking();
    const std::vector<float> values = state_->read(kept);
    std::vector<float> out;
    for (int64_t n = 0; n < blocking.samples; ++n)
      for (int64_t c = 0; c < blocking.channels; ++c)
        for (int64_t p = 0; p < blocking.area; ++p)
          out.push_back(values[static_cast<size_t>(blocking.offset(n, c, p))]);
    return out;
  }
  throw LogicError("no layer is named " + layer);
}

std::string Net::first_non_finite(const layers::StepContext& host_step) {
  const layers::StepContext step = state_->on_device(host_step);
  // The rows that the last step's factors lie in may still be on their way to the peers.
  for (Call& call : state_->program.calls()) call.factors = {};
  const auto is_finite = [this](const auto& memory) { return all_finite(state_->read(memory)); };
  for (Call& call : state_->program.calls()) {
    if (call.node >= 0)
      for (int index : state_->parameters_of_layer[at(call.node)])
        if (!is_finite(state_->parameters[at(index)].value)) return state_->program.name_of(call);
    call.layer->forward(step, call.memory);
    if (!is_finite(call.memory.output)) return state_->program.name_of(call);
  }
  std::string found;
  backward(host_step, [&](int layer) {
    if (factor_shape(layer)) return;  // no gradients are there yet
    for (int index : state_->parameters_of_layer[at(layer)])
      if (found.empty() && !is_finite(state_->parameters[at(index)].gradient))
        found = state_->network.nodes()[at(layer)].definition->name;
  });
  return found;
}

std::vector<std::string> Net::warnings() const {
  std::vector<std::string> out;
  for (const Call& call : state_->program.calls())
    if (!call.layer->warning().empty()) out.push_back(call.layer->warning());
  return out;
}

Choices Net::choices() const {
  Choices out;
  for (const Call& call : state_->program.calls())
    if (call.node >= 0 && !(call.layer->choice() == layers::Choice{}))
      out[state_->definition_of(call).name] = call.layer->choice();
  return out;
}

int Net::layer_count() const { return static_cast<int>(state_->network.nodes().size()); }

const std::string& Net::layer_name(int layer) const {
  return state_->network.nodes()[at(layer)].definition->name;
}

void Net::set_trace(TraceRecorder* trace) {
  state_->trace = trace;
  if (trace == nullptr) return;
  for (Call& call : state_->program.calls()) {
    const std::string name = state_->program.name_of(call);
    call.labels = {.forward = trace->label({"compute", "forward", name}),
                   .backward = trace->label({"compute", "backward", name}),
                   .rebuild = trace->label({"compute", "rebuild", name})};
  }
}

std::map<std::string, std::vector<layers::Choice>> Net::alternatives() const {
  std::map<std::string, std::vector<layers::Choice>> out;
  for (const Call& call : state_->program.calls())
    if (call.node >= 0 && !call.layer->alternatives().empty())
      out[state_->definition_of(call).name] = call.layer->alternatives();
  return out;
}

std::vector<Net::Timing> Net::time(const layers::StepContext& host_step, int repeats) {
  const layers::StepContext step = state_->on_device(host_step);
  const auto time_of = [this](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    state_->device.record().wait();
    return milliseconds_since(start);
  };
  std::vector<Call>& calls = state_->program.calls();
  std::vector<std::vector<double>> forward_ms(calls.size()), backward_ms(calls.size());
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (size_t i = 0; i < calls.size(); ++i) {
      const auto forward = [&] { calls[i].layer->forward(step, calls[i].memory); };
      forward_ms[i].push_back(time_of(forward));
    }
    for (size_t i = calls.size(); i-- > 0;) {
      if (!calls[i].runs_backward) continue;
      backward_ms[i].push_back(time_of([&] {
        if (calls[i].gives_factors) calls[i].layer->write_factors(calls[i].memory, {});
        calls[i].layer->backward(step, calls[i].memory);
      }));
    }
  }
  std::vector<Timing> out;
  for (size_t i = 0; i < calls.size(); ++i)
    out.push_back({.name = state_->program.name_of(calls[i]),
                   .type = std::string(calls[i].node >= 0 ? state_->definition_of(calls[i]).type()
                                                          : "reorder"),
                   .forward_ms = median(forward_ms[i]),
                   .backward_ms = backward_ms[i].empty() ? 0 : median(backward_ms[i]),
                   .multiply_adds =
                       calls[i].node >= 0 ? state_->definition_of(calls[i]).multiply_adds() : 0});
  return out;
}

NetMemory Net::memory() const { return state_->memory(); }

size_t Net::packed_count(const Parameter& parameter) const {
  return state_->packed_count(parameter);
}

}  // namespace poseidon::net
