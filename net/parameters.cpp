#include "net/parameters.h"

#include <algorithm>
#include <ranges>

#include "core/error.h"
#include "core/memory.h"
#include "net/at.h"
#include "net/network.h"
#include "net/programs.h"

namespace poseidon::net {

namespace {

/// Kinds of tensors for TensorMemory. The optimizer's state and the EMA use the kinds from 3 on.
constexpr size_t kValues = 0, kNextValues = 1, kGradients = 2;

size_t count_of(const Statistic& statistic) {
  return static_cast<size_t>(statistic.spec.shape.count());
}

/// The calls of layers, without reorders, in the network's order. Fusion may have changed the order
/// of the program.
std::vector<const Call*> in_network_order(const Program& program) {
  std::vector<const Call*> owners;
  for (const Call& call : program.calls())
    if (call.node >= 0) owners.push_back(&call);
  std::ranges::stable_sort(owners, {}, [](const Call* call) { return call->node; });
  return owners;
}

/// Floats in one version of all parameters, or only of the learned ones, with padding.
size_t floats_of(const Parameters& parameters, bool learned_only = false) {
  size_t floats = 0;
  for (const Parameter& parameter : parameters)
    if (parameter.learned || !learned_only)
      floats += TensorMemory::padded(parameters.packed_count(parameter));
  return floats;
}

/// Size of one version of all rounded parameters, or only of the learned ones, in floats with
/// padding.
size_t rounded_floats(const Parameters& parameters, bool learned_only = false) {
  size_t floats = 0;
  for (const Parameter& parameter : parameters)
    if (parameters.layer_of(parameter).reads_rounded(parameter.index) &&
        (parameter.learned || !learned_only))
      floats +=
          TensorMemory::padded(TensorMemory::floats_of_bf16(parameters.packed_count(parameter)));
  return floats;
}

/// Size of all versions of the rounded parameters, in floats.
size_t rounded_floats_of_versions(const Parameters& parameters) {
  return rounded_floats(parameters) +
         (parameters.versions() == 2 ? rounded_floats(parameters, true) : 0);
}

/// Assigns pieces of `memory` to the rounded parameters.
void allocate_rounded(Parameters& parameters, TensorMemory& memory) {
  for (Parameter& parameter : parameters) {
    if (!parameters.layer_of(parameter).reads_rounded(parameter.index)) continue;
    const size_t count = parameters.packed_count(parameter);
    const std::span<Bf16> only = memory.allocate_bf16(count);
    parameter.rounded = parameter.learned && parameters.versions() == 2
                            ? VersionsOf(only, memory.allocate_bf16(count))
                            : VersionsOf(only);
  }
}

/// Floats in one version of all statistics, with padding.
size_t floats_of(const std::vector<Statistic>& statistics) {
  size_t floats = 0;
  for (const Statistic& statistic : statistics) floats += TensorMemory::padded(count_of(statistic));
  return floats;
}

/// The calls that use the parameters of `layer`, in the order of the forward pass.
std::vector<Call*> users_of(const Network& network, Program& program, int layer) {
  std::vector<Call*> out;
  for (Call& call : program.calls())
    if (call.node == layer || (call.node >= 0 && network.nodes()[at(call.node)].shares == layer))
      out.push_back(&call);
  return out;
}

/// The call that is the last one in the backward pass to use the parameters of `layer`.
Call& last_user(const Network& network, Program& program, int layer) {
  const std::vector<Call*> all = users_of(network, program, layer);
  return **std::ranges::find_if(all, &Call::runs_backward);
}

/// Floats of the additional gradients of layers that share parameters. The first of these layers in
/// the backward pass needs no additional gradient. It writes the gradient to which the gradients
/// of the other layers are added.
size_t shared_floats(const Parameters& parameters, const Network& network, Program& program) {
  size_t floats = 0;
  for (const Parameter& parameter : parameters) {
    const std::vector<Call*> all = users_of(network, program, parameter.layer);
    const auto giving = static_cast<size_t>(std::ranges::count_if(all, &Call::runs_backward));
    if (giving > 1)
      floats += (giving - 1) * TensorMemory::padded(parameters.packed_count(parameter));
  }
  return floats;
}

bool has_tensors(const Parameters& parameters, int layer) {
  return !parameters.of(layer).empty() || !parameters.statistics_of(layer).empty();
}

/// Sets the gate of each test call to the training layer whose tensors it reads.
void find_gates(Program& tests, const Network& network, const Parameters& parameters) {
  const std::vector<Node>& nodes = network.in_test().nodes();
  for (Call& call : tests.calls()) {
    if (call.node < 0) continue;
    const Node& node = nodes[at(call.node)];
    const Node& owner = node.shares < 0 ? node : nodes[at(node.shares)];
    const std::optional<int> layer = network.index_of(owner.definition->name);
    if (layer && has_tensors(parameters, *layer)) call.gate = *layer;
  }
}

/// Binds test calls to the tensors of the training layers. Test calls never write these tensors.
void bind_to(Program& program, Program& tests) {
  for (Call& call : tests.calls()) {
    if (call.gate < 0) continue;
    const layers::Bindings& owner = program.call_of(call.gate)->memory;
    call.memory.parameters = owner.parameters;
    call.memory.statistics = owner.statistics;
  }
}

/// Sets the pointers of a call to the current version of its layer's tensors.
void read_current(Call& call, Parameters& parameters) {
  const std::span<const int> learned = parameters.of(call.gate);
  const std::span<const int> tracked = parameters.statistics_of(call.gate);
  for (size_t i = 0; i < call.memory.parameters.size(); ++i) {
    const Parameter& parameter = parameters[at(learned[i])];
    call.memory.parameters[i].value = parameter.value().data();
    call.memory.parameters[i].rounded = parameter.rounded.current().data();
  }
  for (size_t i = 0; i < call.memory.statistics.size(); ++i)
    call.memory.statistics[i].value = parameters.statistics()[at(tracked[i])].value().data();
}

}  // namespace

// ---- list of tensors

Parameters::Parameters(Device& device, const Network& network, Programs& programs, int versions)
    : device_(device),
      network_(network),
      program_(programs.main()),
      tests_(programs.tests()),
      versions_(versions),
      training_(std::ranges::any_of(program_.calls(), &Call::runs_backward)),
      of_layer_(network.nodes().size()),
      statistics_of_layer_(network.nodes().size()) {
  check(versions == 1 || versions == 2, "a net has one version of its parameters or two");
  for (const Call* call : in_network_order(program_)) list(*call);
  for (const Call* call : in_network_order(program_)) list_statistics(*call);
  find_summed_layers();
  if (tests_ != nullptr) find_gates(*tests_, network, *this);
}

void Parameters::list(const Call& call) {
  const std::vector<layers::ParameterSpec> specs = network_.nodes()[at(call.node)].parameters();
  const bool trained =
      std::ranges::any_of(users_of(network_, program_, call.node), &Call::runs_backward);
  for (size_t i = 0; i < specs.size(); ++i) {
    of_layer_[at(call.node)].push_back(static_cast<int>(parameters_.size()));
    parameters_.push_back({.name = call.definition->name + "." + specs[i].name,
                           .layer = call.node,
                           .index = static_cast<int>(i),
                           .spec = specs[i],
                           .learned = trained && specs[i].learning_rate_multiplier != 0,
                           .versions = {},
                           .rounded = {},
                           .gradient = {}});
  }
}

void Parameters::list_statistics(const Call& call) {
  for (const layers::StatisticSpec& spec : call.definition->statistics()) {
    statistics_of_layer_[at(call.node)].push_back(static_cast<int>(statistics_.size()));
    statistics_.push_back({.name = call.definition->name + "." + spec.name,
                           .layer = call.node,
                           .spec = spec,
                           .versions = {},
                           .contribution = {}});
  }
}

void Parameters::find_summed_layers() {
  for (const Call& call : program_.calls())
    if (call.node >= 0 && (announces(call.node) || !statistics_of(call.node).empty()))
      summed_layers_.push_back(call.node);
  for (Call& call : program_.calls()) {
    if (call.node < 0) continue;
    const int shares = network_.nodes()[at(call.node)].shares;
    const int owner = shares < 0 ? call.node : shares;
    if (has_tensors(*this, owner)) call.gate = owner;
  }
  for (const int layer : summed_layers_)
    if (announces(layer)) last_user(network_, program_, layer).announces = layer;
}

bool Parameters::announces(int layer) const {
  return std::ranges::any_of(of(layer), [&](int index) { return parameters_[at(index)].learned; });
}

const layers::Layer& Parameters::layer_of(const Parameter& parameter) const {
  return *program_.call_of(parameter.layer)->layer;
}

size_t Parameters::packed_count(const Parameter& parameter) const {
  return static_cast<size_t>(layer_of(parameter).packed_count(parameter.index));
}

// ---- memory

ParameterMemory Parameters::memory() const {
  const size_t tracked = TensorMemory::bytes(floats_of(statistics_), 0);
  return {.parameters = TensorMemory::bytes(floats_of(*this) + rounded_floats(*this), kValues),
          .second_version = versions_ == 2 ? TensorMemory::bytes(floats_of(*this, true) +
                                                                     rounded_floats(*this, true),
                                                                 kNextValues) +
                                                 tracked
                                           : 0,
          .gradients = training_ ? TensorMemory::bytes(
                                       floats_of(*this) + shared_floats(*this, network_, program_),
                                       kGradients)
                                 : 0,
          .statistics = 2 * tracked};
}

void Parameters::allocate_memory() {
  values_ = taken(floats_of(*this), kValues, "parameters");
  if (versions_ == 2)
    next_values_ = taken(floats_of(*this, true), kNextValues, "the second version of parameters");
  if (training_)
    gradients_ =
        taken(floats_of(*this) + shared_floats(*this, network_, program_) + floats_of(statistics_),
              kGradients, "gradients");
  const auto tensors = static_cast<size_t>(versions_) + (training_ ? 0 : 1);
  statistic_memory_ =
      TensorMemory(device_, tensors * floats_of(statistics_), kValues, "running statistics");
  for (Parameter& parameter : parameters_) {
    const size_t count = packed_count(parameter);
    const std::span<float> value = values_.allocate(count);
    parameter.versions = parameter.learned && versions_ == 2
                             ? TensorVersions(value, next_values_.allocate(count))
                             : TensorVersions(value);
  }
  rounded_ = taken(rounded_floats_of_versions(*this), kValues, "parameters in bf16");
  allocate_rounded(*this, rounded_);
  for (Statistic& statistic : statistics_) {
    const size_t count = count_of(statistic);
    const std::span<float> value = statistic_memory_.allocate(count);
    statistic.versions = versions_ == 2 ? TensorVersions(value, statistic_memory_.allocate(count))
                                        : TensorVersions(value);
  }
  // With separate device memory, a layer's gradients and contributions are neighbors, so that one
  // copy can move them all. If the device shares host memory, the contributions follow all
  // gradients. The distance between a gradient and its value is then the same for all parameters,
  // as net::TensorMemory requires.
  TensorMemory& contributions = training_ ? gradients_ : statistic_memory_;
  const auto allocate_contributions = [&](size_t layer) {
    for (const int index : statistics_of_layer_[layer])
      statistics_[at(index)].contribution =
          contributions.allocate(count_of(statistics_[at(index)]));
  };
  for (size_t layer = 0; layer < of_layer_.size(); ++layer) {
    if (training_)
      for (const int index : of_layer_[layer])
        parameters_[at(index)].gradient = gradients_.allocate(packed_count(parameters_[at(index)]));
    if (!device_.shares_memory()) allocate_contributions(layer);
  }
  if (device_.shares_memory())
    for (size_t layer = 0; layer < of_layer_.size(); ++layer) allocate_contributions(layer);
  for (Call& call : program_.calls())
    if (call.node >= 0) bind(call);
  for (size_t layer = 0; layer < of_layer_.size(); ++layer) bind_shared(static_cast<int>(layer));
  if (tests_ != nullptr) bind_to(program_, *tests_);
}

/// Allocates `floats` floats for the tensors of one kind. Throws OutOfMemory that names the largest
/// parameter.
TensorMemory Parameters::taken(size_t floats, size_t kind, const char* what) const {
  try {
    return {device_, floats, kind, what};
  } catch (const OutOfMemory&) {
    const auto size = [this](const Parameter& parameter) { return packed_count(parameter); };
    const Parameter& largest = *std::ranges::max_element(parameters_, {}, size);
    throw OutOfMemory(text(network_.file(), ": out of memory: \"", largest.name, "\" needs ",
                           bytes_text(size(largest) * sizeof(float)), ", the largest part of ",
                           bytes_text(TensorMemory::bytes(floats, kind)), " for ", what));
  }
}

/// Binds layers that share parameters to the values of the owner. The first of these layers in the
/// backward pass writes the gradient. The others write separate gradients, which are added to that
/// gradient in the order of the backward pass.
void Parameters::bind_shared(int layer) {
  std::vector<Call*> all = users_of(network_, program_, layer);
  if (all.size() < 2 || of(layer).empty()) return;
  bool is_first = true;
  for (Call* call : std::views::reverse(all)) {
    if (call->node != layer) call->memory.parameters = program_.call_of(layer)->memory.parameters;
    if (!call->runs_backward) continue;
    for (size_t i = 0; i < of(layer).size() && !is_first; ++i) {
      const std::span<float> whole = parameters_[at(of(layer)[i])].gradient;
      const std::span<float> part = gradients_.allocate(whole.size());
      call->memory.parameters[i].gradient = part.data();
      call->added.push_back({part, whole});
    }
    is_first = false;
  }
}

void Parameters::bind(Call& call) {
  for (const int index : of(call.node)) {
    const Parameter& parameter = parameters_[at(index)];
    call.memory.parameters.push_back({.value = parameter.value().data(),
                                      .gradient = parameter.gradient.data(),
                                      .rounded = parameter.rounded.current().data()});
  }
  for (const int index : statistics_of(call.node))
    call.memory.statistics.push_back({.value = statistics_[at(index)].value().data(),
                                      .gradient = statistics_[at(index)].contribution.data()});
}

void Parameters::flip(int layer) {
  if (versions_ == 1) return;
  for (const int index : of(layer)) {
    parameters_[at(index)].versions.flip();
    parameters_[at(index)].rounded.flip();
  }
  for (const int index : statistics_of(layer)) statistics_[at(index)].versions.flip();
  for (Program* program : {&program_, tests_}) {
    if (program == nullptr) continue;
    for (Call& call : program->calls())
      if (call.gate == layer) read_current(call, *this);
  }
}

}  // namespace poseidon::net
