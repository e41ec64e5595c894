#include "net/program.h"

#include <algorithm>

#include "core/error.h"
#include "net/memory_plan.h"

namespace poseidon::net {

namespace {

size_t at(int index) { return static_cast<size_t>(index); }

}  // namespace

Program::Program(const Network& network, layers::LayerFactory& factory, const Options& options)
    : network_(network),
      factory_(factory),
      options_(options),
      value_of_node_(network.nodes().size(), -1) {
  check_factored();
  add_value({.shape = network.input(), .layout = Layout::kPlain, .producer = -1, .consumers = {}});
  for (const Operation& operation : fuse(network, factory)) add_operation(operation);
  mark_backward();
  assign_memory();
}

bool Program::is_factored(const std::string& layer) const {
  return std::ranges::find(options_.factored, layer) != options_.factored.end();
}

/// Refuses layers that cannot give factors.
void Program::check_factored() const {
  check(options_.factored.empty() || options_.factor_rows > 0,
        "layers that give factors are told how many samples are stacked");
  for (const std::string& name : options_.factored) {
    const auto node = std::ranges::find_if(
        network_.nodes(), [&](const Node& other) { return other.definition->name == name; });
    if (node == network_.nodes().end())
      throw ConfigError(text("no layer is named \"", name, "\", so it cannot give factors"));
    const layers::Definition& definition = *node->definition;
    const auto refuse = [&](const char* reason) {
      throw ConfigError(text("[", definition.type(), " '", name, "'] ", reason));
    };
    if (!definition.factors()) refuse("gives no factors: only linear layers do");
    if (std::ranges::all_of(definition.parameters(), [](const layers::ParameterSpec& spec) {
          return spec.learning_rate_multiplier == 0;
        }))
      refuse("gives no factors: its learning rate is 0");
  }
}

int Program::add_value(Value value) {
  values_.push_back(std::move(value));
  return static_cast<int>(values_.size()) - 1;
}

void Program::add_operation(const Operation& operation) {
  const layers::Definition& definition = *network_.nodes()[at(operation.node)].definition;
  layers::LayerRequest request{.definition = definition,
                               .input_shapes = {},
                               .output_shape = network_.nodes()[at(operation.output)].output,
                               .input_layouts = {},
                               .input_needs_gradient = {},
                               .training = options_.training,
                               .relu = operation.relu,
                               .residual = operation.residual,
                               .choice = {}};
  if (const auto choice = options_.choices.find(definition.name); choice != options_.choices.end())
    request.choice = choice->second;
  std::vector<int> inputs;
  bool needs_gradient = !definition.parameters().empty();
  for (int node : operation.inputs) {
    inputs.push_back(node == kNetworkInput ? 0 : value_of_node_[at(node)]);
    const Value& value = values_[at(inputs.back())];
    request.input_shapes.push_back(value.shape);
    request.input_layouts.push_back(value.layout);
    request.input_needs_gradient.push_back(value.needs_gradient);
    needs_gradient = needs_gradient || value.needs_gradient;
  }
  Call call;
  call.gives_factors = options_.training && is_factored(definition.name);
  if (call.gives_factors) request.factor_rows = options_.factor_rows;
  call.layer = factory_.make(request);
  call.node = operation.node;
  const layers::Needs& needs = call.layer->needs();
  for (size_t i = 0; i < inputs.size(); ++i)
    call.inputs.push_back(in_layout(inputs[i], needs.input_layouts[i]));
  if (needs.backward_reads_inputs)
    call.inputs_read_back = static_cast<int>(call.inputs.size()) - (operation.residual ? 1 : 0);
  const int index = static_cast<int>(calls_.size());
  for (int input : call.inputs) values_[at(input)].consumers.push_back(index);
  const bool kept =
      definition.is_loss() ||
      std::find(options_.keep.begin(), options_.keep.end(),
                network_.nodes()[at(operation.output)].definition->name) != options_.keep.end();
  call.output = add_value({.shape = request.output_shape,
                           .layout = needs.output_layout,
                           .producer = index,
                           .consumers = {},
                           .needs_gradient = needs_gradient,
                           .kept = kept});
  value_of_node_[at(operation.output)] = call.output;
  calls_.push_back(std::move(call));
}

/// The value itself, or a copy of it in another layout, made once for all who want it so.
int Program::in_layout(int value, Layout layout) {
  if (values_[at(value)].layout == layout) return value;
  if (const auto found = reordered_.find({value, layout}); found != reordered_.end())
    return found->second;
  const Shape shape = values_[at(value)].shape;
  Call call;
  call.layer = factory_.make_reorder(shape, values_[at(value)].layout, layout);
  call.inputs = {value};
  const int index = static_cast<int>(calls_.size());
  values_[at(value)].consumers.push_back(index);
  call.output = add_value({.shape = shape,
                           .layout = layout,
                           .producer = index,
                           .consumers = {},
                           .needs_gradient = values_[at(value)].needs_gradient});
  const int output = call.output;
  calls_.push_back(std::move(call));
  reordered_[{value, layout}] = output;
  return output;
}

/// Backward runs where a gradient arrives and somebody before wants one.
void Program::mark_backward() {
  if (!options_.training) return;
  for (size_t i = calls_.size(); i-- > 0;) {
    Call& call = calls_[i];
    const Value& output = values_[at(call.output)];
    const bool is_loss = call.node >= 0 && network_.nodes()[at(call.node)].definition->is_loss();
    const bool receives =
        std::any_of(output.consumers.begin(), output.consumers.end(),
                    [&](int consumer) { return calls_[at(consumer)].runs_backward; });
    call.runs_backward = output.needs_gradient && (is_loss || receives);
  }
}

/// Whether a call may write its output over the memory of one of its inputs.
bool Program::may_overwrite(const Call& call, int input) const {
  // An input that the call reads twice is still to be read after the first part is written.
  if (std::ranges::count(call.inputs, call.inputs[at(input)]) > 1) return false;
  const int self = values_[at(call.output)].producer;
  const Value& value = values_[at(call.inputs[at(input)])];
  const Value& output = values_[at(call.output)];
  if (value.producer < 0 || value.kept || value.layout != output.layout ||
      !(value.shape == output.shape))
    return false;
  const Call& producer = calls_[at(value.producer)];
  if (producer.runs_backward && producer.layer->needs().backward_reads_output) return false;
  for (int consumer : value.consumers) {
    const Call& reader = calls_[at(consumer)];
    if (consumer > self) return false;
    if (!reader.runs_backward) continue;
    for (int k = 0; k < reader.inputs_read_back; ++k)
      if (reader.inputs[at(k)] == call.inputs[at(input)]) return false;
  }
  return true;
}

namespace {

/// Collects the pieces of memory, some of which are shared by several users, and binds pointers to
/// them once the arena is there.
class Pieces {
 public:
  int add(size_t bytes, int first, int last) {
    intervals_.push_back({bytes, first, last});
    return static_cast<int>(intervals_.size()) - 1;
  }
  void extend(int piece, int first, int last) {
    intervals_[at(piece)].first = std::min(intervals_[at(piece)].first, first);
    intervals_[at(piece)].last = std::max(intervals_[at(piece)].last, last);
  }
  Buffer allocate() {
    plan_ = plan_memory(intervals_);
    Buffer arena(plan_.total);
    base_ = static_cast<std::byte*>(arena.data());
    return arena;
  }
  std::byte* memory(int piece) const {
    return piece < 0 ? nullptr : base_ + plan_.offsets[at(piece)];
  }

 private:
  std::vector<Interval> intervals_;
  MemoryPlan plan_;
  std::byte* base_ = nullptr;
};

size_t stored_bytes(const Value& value) {
  return static_cast<size_t>(stored_count(value.shape, value.layout)) * sizeof(float);
}

}  // namespace

void Program::assign_memory() {
  const int count = static_cast<int>(calls_.size());
  const auto backward_time = [&](int call) { return 2 * count - 1 - call; };
  const int end = 2 * count;
  Pieces pieces;
  std::vector<int> piece_of_value(values_.size(), -1), piece_of_workspace(calls_.size(), -1);
  size_t scratch_bytes = 0;

  // Activations, from their producer to their last reader.
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    const int first = std::max(value.producer, 0);
    int last = value.kept ? end : first;
    for (int consumer : value.consumers) {
      const Call& reader = calls_[at(consumer)];
      last = std::max(last, consumer);
      for (int k = 0; k < reader.inputs_read_back && reader.runs_backward; ++k)
        if (reader.inputs[at(k)] == static_cast<int>(v))
          last = std::max(last, backward_time(consumer));
    }
    if (value.producer >= 0) {
      const Call& producer = calls_[at(value.producer)];
      const layers::Needs& needs = producer.layer->needs();
      if (producer.runs_backward && needs.backward_reads_output)
        last = std::max(last, backward_time(value.producer));
      if (needs.forward_in_place >= 0 && may_overwrite(producer, needs.forward_in_place)) {
        piece_of_value[v] = piece_of_value[at(producer.inputs[at(needs.forward_in_place)])];
        pieces.extend(piece_of_value[v], first, last);
        continue;
      }
    }
    piece_of_value[v] = pieces.add(stored_bytes(value), first, last);
  }

  // Gradients, from the consumer that writes one to the producer that reads it.
  std::vector<std::vector<int>> contributions(values_.size());  // pieces, by value
  std::vector<std::vector<int>> input_gradient(calls_.size());  // pieces, by call and input
  for (int c = count - 1; c >= 0; --c) {
    const Call& call = calls_[at(c)];
    const layers::Needs& needs = call.layer->needs();
    scratch_bytes = std::max(scratch_bytes, needs.scratch_bytes);
    if (needs.workspace_bytes > 0)
      piece_of_workspace[at(c)] =
          pieces.add(needs.workspace_bytes, c, options_.training ? backward_time(c) : c);
    input_gradient[at(c)].assign(call.inputs.size(), -1);
    if (!call.runs_backward) continue;
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      const Value& value = values_[at(call.inputs[k])];
      if (!value.needs_gradient) continue;
      const bool in_place = needs.backward_in_place == static_cast<int>(k) &&
                            !contributions[at(call.output)].empty() &&
                            value.layout == values_[at(call.output)].layout;
      const int piece = in_place
                            ? contributions[at(call.output)][0]
                            : pieces.add(stored_bytes(value), backward_time(c), backward_time(c));
      input_gradient[at(c)][k] = piece;
      contributions[at(call.inputs[k])].push_back(piece);
      pieces.extend(piece, backward_time(c), backward_time(value.producer));
    }
  }
  const int scratch = scratch_bytes > 0 ? pieces.add(scratch_bytes, 0, end) : -1;

  arena_ = pieces.allocate();
  memory_of_value_.resize(values_.size());
  for (size_t v = 0; v < values_.size(); ++v)
    memory_of_value_[v] = reinterpret_cast<float*>(pieces.memory(piece_of_value[v]));
  for (int c = 0; c < count; ++c) {
    Call& call = calls_[at(c)];
    layers::Bindings& memory = call.memory;
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      Tensor input = tensor(call.inputs[k]);
      memory.inputs.push_back(input);
      input.data = reinterpret_cast<float*>(pieces.memory(input_gradient[at(c)][k]));
      memory.input_gradients.push_back(input);
    }
    memory.output = tensor(call.output);
    for (int piece : contributions[at(call.output)]) {
      Tensor gradient = memory.output;
      gradient.data = reinterpret_cast<float*>(pieces.memory(piece));
      memory.output_gradients.push_back(gradient);
    }
    memory.workspace = pieces.memory(piece_of_workspace[at(c)]);
    memory.scratch = pieces.memory(scratch);
  }
}

Tensor Program::tensor(int value) const {
  const Value& v = values_[at(value)];
  return {memory_of_value_[at(value)], v.shape, v.layout};
}

Tensor Program::kept_output(int node) const {
  const int value = value_of_node_[at(node)];
  return value >= 0 && values_[at(value)].kept ? tensor(value) : Tensor{};
}

}  // namespace poseidon::net
