#include "net/program.h"

#include <algorithm>

#include "core/bf16.h"
#include "core/error.h"
#include "core/memory.h"
#include "net/at.h"

namespace poseidon::net {

namespace {

/// Throws ConfigError unless both layers store the parameters that they share in the same order.
void check_same_order(const Call& call, const Call& owner) {
  const auto count = static_cast<int>(call.definition->parameters().size());
  for (int i = 0; i < count; ++i) {
    const std::string order = call.layer->packed_order(i);
    if (order.empty() || order != owner.layer->packed_order(i))
      throw ConfigError(text("[", call.definition->type(), " '", call.definition->name,
                             "'] cannot share the parameters of \"", owner.definition->name, "\"",
                             call.definition->name == owner.definition->name ? " in training" : "",
                             ": on this device the two layers store them in different orders"));
  }
}

/// Creates the values of the external inputs. Value 0 is the samples; the auxiliary inputs follow.
/// The labels are last, if a layer reads them.
std::vector<Value> values_of_batch(const Network& network, Format format_of_samples) {
  const auto value = [](const Shape& shape, Format format, bool kept) {
    return Value{.shape = shape, .format = format, .producer = -1, .consumers = {}, .kept = kept};
  };
  std::vector<Value> values{value(network.input(), format_of_samples, false)};
  for (const AuxiliaryInput& extra : network.extras())
    values.push_back(value(extra.batch_shape(network.batch()), kPlainFp32, false));
  if (network.reads_labels()) values.push_back(value(network.label(), kPlainFp32, true));
  return values;
}

/// The index in values_ of the external input `input`, a negative element of Node::inputs.
int value_of_batch(const Network& network, int input) {
  if (input == kNetworkInput) return 0;
  if (input == kNetworkLabel) return 1 + static_cast<int>(network.extras().size());
  return 1 + auxiliary_input_index(input);
}

}  // namespace

Program::Program(const Network& network, layers::LayerFactory& factory, const Options& options,
                 Arena& arena)
    : network_(network),
      factory_(factory),
      options_(options),
      batch_input_(options.trained == nullptr ? factory.make_batch_input() : nullptr),
      value_of_node_(network.nodes().size(), -1),
      call_of_node_(network.nodes().size(), -1),
      arena_(arena),
      first_piece_(arena.pieces()) {
  if (options.trained == nullptr) check_factored();
  values_ = values_of_batch(
      network, options.trained == nullptr ? kPlainFp32 : options.trained->values_[0].format);
  for (const Operation& operation : fuse(network, factory, options.keep)) add_operation(operation);
  schedule_ = {.first = options.trained == nullptr ? 0 : options.trained->schedule_.end() + 1,
               .calls = static_cast<int>(calls_.size())};
  mark_backward();
  place_activations();
  place_gradients();
  place_workspaces();
  end_piece_ = arena.pieces();
}

/// Throws ConfigError if a layer in Options::factored cannot write factors.
void Program::check_factored() const {
  check(options_.factored.empty() || options_.factor_rows > 0,
        "Options::factor_rows is set if Options::factored is not empty");
  for (const std::string& name : options_.factored) {
    const auto node = std::ranges::find_if(
        network_.nodes(), [&](const Node& other) { return other.definition->name == name; });
    if (node == network_.nodes().end())
      throw ConfigError(
          text("no layer is named \"", name, "\": expected a layer that can send factors"));
    const layers::Definition& definition = *node->definition;
    const auto refuse = [&](const char* reason) {
      throw ConfigError(text("[", definition.type(), " '", name, "'] ", reason));
    };
    if (!node->factors())
      refuse(
          "cannot send factors: expected a linear layer or a convolution that shares no "
          "parameters");
    if (std::ranges::all_of(definition.parameters(), [](const layers::ParameterSpec& spec) {
          return spec.learning_rate_multiplier == 0;
        }))
      refuse("cannot send factors: its learning rate is 0");
  }
}

Program::Input Program::input() const {
  Input input{tensor(0), {}, {}, batch_input_.get()};
  for (size_t i = 0; i < network_.extras().size(); ++i)
    input.extras.push_back(
        tensor(value_of_batch(network_, auxiliary_input_number(static_cast<int>(i)))));
  if (network_.reads_labels()) input.labels = tensor(value_of_batch(network_, kNetworkLabel));
  return input;
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
                               .input_formats = {},
                               .input_needs_gradient = {},
                               // A test layer must store parameters in the same order as its
                               // training layer.
                               .training = options_.training || options_.trained != nullptr,
                               .relu = operation.relu,
                               .residual = operation.residual,
                               .choice = {}};
  if (const auto choice = options_.choices.find(definition.name); choice != options_.choices.end())
    request.choice = choice->second;
  const Node& node_of_call = network_.nodes()[at(operation.node)];
  const Call* const trained = trained_call(definition);
  const Call* const owner = node_of_call.shares < 0 ? trained : call_of(node_of_call.shares);
  if (owner != nullptr) request.choice = owner->layer->choice();
  std::vector<int> inputs;
  bool needs_gradient = !definition.parameters().empty();
  for (int node : operation.inputs) {
    inputs.push_back(node < 0 ? value_of_batch(network_, node) : value_of_node_[at(node)]);
    const Value& value = values_[at(inputs.back())];
    request.input_shapes.push_back(value.shape);
    request.input_formats.push_back(value.format);
    request.input_needs_gradient.push_back(value.needs_gradient);
    needs_gradient = needs_gradient || value.needs_gradient;
  }
  Call call;
  call.writes_factors =
      options_.training && std::ranges::count(options_.factored, definition.name) > 0;
  if (call.writes_factors || (trained != nullptr && trained->writes_factors))
    request.factor_rows = options_.factor_rows;
  call.layer = factory_.make(request);
  call.node = operation.node;
  call.definition = &definition;
  if (owner != nullptr) check_same_order(call, *owner);
  const layers::Needs& needs = call.layer->needs();
  for (size_t i = 0; i < inputs.size(); ++i)
    call.inputs.push_back(in_format(inputs[i], needs.input_formats[i]));
  if (needs.backward_reads_inputs)
    call.inputs_read_back = static_cast<int>(call.inputs.size()) - (operation.residual ? 1 : 0);
  const int index = static_cast<int>(calls_.size());
  call_of_node_[at(operation.node)] = index;
  for (int input : call.inputs) values_[at(input)].consumers.push_back(index);
  const bool kept =
      !definition.scalars().empty() ||
      std::find(options_.keep.begin(), options_.keep.end(),
                network_.nodes()[at(operation.output)].definition->name) != options_.keep.end();
  call.output = add_value({.shape = request.output_shape,
                           .format = needs.output_format,
                           .producer = index,
                           .consumers = {},
                           .needs_gradient = needs_gradient,
                           .kept = kept});
  value_of_node_[at(operation.output)] = call.output;
  calls_.push_back(std::move(call));
}

/// Returns the index of the value in `format`: `value` itself, or a copy. All readers of that
/// format share the copy.
int Program::in_format(int value, Format format) {
  // The first reader of the samples determines their format.
  if (value == 0 && batch_input_ != nullptr && values_[0].consumers.empty())
    values_[0].format = batch_input_->format_for(values_[0].shape, format);
  if (values_[at(value)].format == format) return value;
  if (const auto found = reordered_.find({value, format}); found != reordered_.end())
    return found->second;
  const Shape shape = values_[at(value)].shape;
  Call call;
  call.layer = factory_.make_reorder(shape, values_[at(value)].format, format);
  call.inputs = {value};
  const int index = static_cast<int>(calls_.size());
  values_[at(value)].consumers.push_back(index);
  call.output = add_value({.shape = shape,
                           .format = format,
                           .producer = index,
                           .consumers = {},
                           .needs_gradient = values_[at(value)].needs_gradient});
  const int output = call.output;
  calls_.push_back(std::move(call));
  reordered_[{value, format}] = output;
  return output;
}

/// Sets Call::runs_backward and Call::makes_input_gradient. Value::needs_gradient is true if the
/// producer, or a call on which the producer depends, has parameters.
void Program::mark_backward() {
  if (!options_.training) return;
  for (size_t i = calls_.size(); i-- > 0;) {
    Call& call = calls_[i];
    const Value& output = values_[at(call.output)];
    const bool is_loss = call.definition != nullptr && call.definition->is_loss();
    const bool receives =
        std::any_of(output.consumers.begin(), output.consumers.end(),
                    [&](int consumer) { return calls_[at(consumer)].runs_backward; });
    call.runs_backward = output.needs_gradient && (is_loss || receives);
    call.makes_input_gradient =
        call.runs_backward && std::ranges::any_of(call.inputs, [this](int input) {
          return values_[at(input)].needs_gradient;
        });
  }
}

/// Whether a call may write its output to the memory of its input with the index `input`.
bool Program::may_overwrite(const Call& call, int input) const {
  // A call that reads the input twice could overwrite elements before it has read them twice.
  if (std::ranges::count(call.inputs, call.inputs[at(input)]) > 1) return false;
  const int self = values_[at(call.output)].producer;
  const Value& value = values_[at(call.inputs[at(input)])];
  const Value& output = values_[at(call.output)];
  if (value.producer < 0 || value.kept || value.format != output.format ||
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

/// An activation is in use from its producer to its last reader, in the forward or backward pass. A
/// kept activation is in use until the end of the step.
void Program::place_activations() {
  pieces_.values.assign(values_.size(), -1);
  for (size_t v = 0; v < values_.size(); ++v) {
    const Value& value = values_[v];
    const int first = value.producer < 0 ? 0 : schedule_.forward(value.producer);
    int last = value.kept ? schedule_.end() : first;
    for (int consumer : value.consumers) {
      const Call& reader = calls_[at(consumer)];
      last = std::max(last, schedule_.forward(consumer));
      for (int k = 0; k < reader.inputs_read_back && reader.runs_backward; ++k)
        if (reader.inputs[at(k)] == static_cast<int>(v))
          last = std::max(last, schedule_.backward(consumer));
    }
    if (value.producer >= 0) {
      const Call& producer = calls_[at(value.producer)];
      const layers::Needs& needs = producer.layer->needs();
      if (producer.runs_backward && needs.backward_reads_output)
        last = std::max(last, schedule_.backward(value.producer));
      if (needs.forward_in_place >= 0 && may_overwrite(producer, needs.forward_in_place)) {
        pieces_.values[v] = pieces_.values[at(producer.inputs[at(needs.forward_in_place)])];
        arena_.extend(pieces_.values[v], first, last);
        continue;
      }
    }
    pieces_.values[v] = trained_piece(v);
    if (pieces_.values[v] >= 0)
      arena_.extend(pieces_.values[v], first, last);
    else
      pieces_.values[v] = arena_.add(stored_bytes(value.shape, value.format), first, last,
                                     {value.producer, "output"});
  }
}

/// For a value of the batch in a test program: the piece of this value in the training program. -1
/// for all other values, and for labels that the training program does not read.
int Program::trained_piece(size_t value) const {
  const bool is_there = options_.trained != nullptr && values_[value].producer < 0 &&
                        (static_cast<int>(value) != value_of_batch(network_, kNetworkLabel) ||
                         options_.trained->network_.reads_labels());
  return is_there ? options_.trained->pieces_.values[value] : -1;
}

/// In a test program: the call of the training program whose parameters the layer `definition`
/// uses. Its layer has the same name. Null if there is none, if the layer has no parameters, or in
/// a main program.
const Call* Program::trained_call(const layers::Definition& definition) const {
  const Program* trained = options_.trained;
  if (trained == nullptr || definition.parameters().empty()) return nullptr;
  const std::optional<int> node = trained->network_.index_of(definition.name);
  const int call = node ? trained->call_of_node_[at(*node)] : -1;
  return call < 0 ? nullptr : &trained->calls_[at(call)];
}

/// A gradient is in use from the backward pass of the consumer, which writes it, to that of the
/// producer, which reads it.
void Program::place_gradients() {
  pieces_.contributions.resize(values_.size());
  pieces_.input_gradients.resize(calls_.size());
  for (int c = static_cast<int>(calls_.size()) - 1; c >= 0; --c) {
    const Call& call = calls_[at(c)];
    const layers::Needs& needs = call.layer->needs();
    pieces_.input_gradients[at(c)].assign(call.inputs.size(), -1);
    if (!call.runs_backward) continue;
    const std::vector<int>& own = pieces_.contributions[at(call.output)];
    for (size_t k = 0; k < call.inputs.size(); ++k) {
      const Value& value = values_[at(call.inputs[k])];
      if (!value.needs_gradient) continue;
      const bool in_place = needs.backward_in_place == static_cast<int>(k) && !own.empty() &&
                            value.format == values_[at(call.output)].format;
      const int now = schedule_.backward(c);
      const int piece = in_place ? own[0]
                                 : arena_.add(stored_bytes(value.shape, value.format), now, now,
                                              {value.producer, "gradient of its output"});
      pieces_.input_gradients[at(c)][k] = piece;
      pieces_.contributions[at(call.inputs[k])].push_back(piece);
      arena_.extend(piece, now, schedule_.backward(value.producer));
    }
  }
}

/// In training, the workspace of a call is in use from its forward pass to its backward pass.
/// Otherwise it is in use in the forward pass only. All calls share the scratch memory.
void Program::place_workspaces() {
  const int count = static_cast<int>(calls_.size());
  pieces_.workspaces.assign(calls_.size(), -1);
  size_t scratch_bytes = 0, rebuild_bytes = 0;
  int greediest = 0;
  for (int c = count - 1; c >= 0; --c) {
    const layers::Needs& needs = calls_[at(c)].layer->needs();
    if (needs.scratch_bytes > scratch_bytes) greediest = c;
    scratch_bytes = std::max(scratch_bytes, needs.scratch_bytes);
    if (calls_[at(c)].writes_factors) rebuild_bytes = std::max(rebuild_bytes, needs.scratch_bytes);
    if (needs.workspace_bytes > 0)
      pieces_.workspaces[at(c)] = arena_.add(
          needs.workspace_bytes, schedule_.forward(c),
          options_.training ? schedule_.backward(c) : schedule_.forward(c), {c, "workspace"});
  }
  if (scratch_bytes > 0)
    pieces_.scratch =
        arena_.add(scratch_bytes, schedule_.first, schedule_.end(), {greediest, "scratch memory"});
  // On a device that shares host memory, no work runs concurrently with a pass, so `scratch`
  // suffices.
  if (rebuild_bytes > 0 && !factory_.device().shares_memory())
    pieces_.rebuild_scratch =
        arena_.add(rebuild_bytes, schedule_.first, schedule_.end(), {greediest, "scratch memory"});
}

void Program::bind() {
  for (size_t c = 0; c < calls_.size(); ++c) bind(c);
}

void Program::bind(size_t c) {
  Call& call = calls_[c];
  layers::Bindings& memory = call.memory;
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    Tensor input = tensor(call.inputs[k]);
    memory.inputs.push_back(input);
    input.data = arena_.memory(pieces_.input_gradients[c][k]);
    memory.input_gradients.push_back(input);
  }
  memory.output = tensor(call.output);
  for (int piece : pieces_.contributions[at(call.output)]) {
    Tensor gradient = memory.output;
    gradient.data = arena_.memory(piece);
    memory.output_gradients.push_back(gradient);
  }
  memory.workspace = arena_.memory(pieces_.workspaces[c]);
  memory.scratch = arena_.memory(pieces_.scratch);
}

layers::Bindings Program::rebuild_memory(const Call& call) const {
  layers::Bindings memory = call.memory;
  if (pieces_.rebuild_scratch >= 0) memory.scratch = arena_.memory(pieces_.rebuild_scratch);
  return memory;
}

Call* Program::call_of(int node) {
  const int call = call_of_node_[at(node)];
  return call < 0 ? nullptr : &calls_[at(call)];
}

std::string Program::name_of(const Call& call) const {
  if (call.definition != nullptr) return call.definition->name;
  for (const Call& other : calls_)
    if (other.output == call.inputs[0]) return "reorder after " + name_of(other);
  return call.inputs[0] == 0
             ? "reorder of the input"
             : "reorder of " + source_name(network_, auxiliary_input_number(call.inputs[0] - 1));
}

Tensor Program::tensor(int value) const {
  const Value& v = values_[at(value)];
  return {arena_.memory(pieces_.values[at(value)]), v.shape, v.format};
}

Tensor Program::kept_output(int node) const {
  const int value = value_of_node_[at(node)];
  return value >= 0 && values_[at(value)].kept ? tensor(value) : Tensor{};
}

std::vector<float> read_values(Device& device, std::span<const float> memory) {
  std::vector<float> out(memory.size());
  device.read(std::as_bytes(memory), std::as_writable_bytes(std::span(out)));
  return out;
}

std::vector<float> read_values(Device& device, const Tensor& tensor) {
  if (!tensor) return {};
  const auto count = static_cast<size_t>(tensor.blocking().count());
  if (tensor.format.type == DataType::kFp32)
    return read_values(device, {tensor.as<float>(), count});
  std::vector<Bf16> values(count);
  device.read({tensor.as<std::byte>(), count * sizeof(Bf16)},
              std::as_writable_bytes(std::span(values)));
  return {values.begin(), values.end()};
}

}  // namespace poseidon::net
