#include "net/net.h"

#include "core/error.h"
#include "core/memory.h"
#include "net/passes.h"
#include "net/program.h"

namespace poseidon::net {

struct Net::State {
  State(Net& net, const Network& definition, layers::LayerFactory& factory, const Options& options)
      : device(factory.device()),
        network(definition),
        program(definition, factory,
                {.training = options.training,
                 .choices = options.choices,
                 .keep = options.keep,
                 .factored = options.factored,
                 .factor_rows = options.factor_rows}),
        parameters(device, definition, program, options.versions),
        values(device, parameters),
        diagnosis(net, program),
        reception(device, program.input().writer),
        passes(device, program),
        scalars(definition.scalars()) {
    if (!options.takes_memory) return;
    program.take_memory();
    parameters.take_memory();
    const Program::Input input = program.input();
    reception.take_memory(input.samples, input.labels);
    numbers = device.allocate(sizeof(layers::StepNumbers), Place::kDevice, "a step's numbers");
    take_reports();
  }

  void take_reports() {
    for (const ReportedScalar& scalar : scalars) {
      if (!reports.empty() && reports.back().node == scalar.node) continue;
      const Tensor& output = program.call_of(scalar.node)->memory.output;
      reports.push_back(
          {scalar.node, output,
           device.allocate(stored_bytes(output.shape, kPlainFp32), Place::kStaging, "losses")});
    }
  }

  /// They are on their way before anything else of the step is.
  void send_reports() {
    reports_sent = device.beside(Lane::kSend, device.record(), [this] {
      for (const Report& report : reports) {
        const std::span<float> host = report.values.as<float>();
        device.copy({report.output.as<float>(), host.size()}, host);
      }
    });
  }

  /// The step as layers see it, once its numbers are there.
  layers::StepContext there(layers::StepContext step) const {
    step.numbers = static_cast<const layers::StepNumbers*>(numbers.data());
    return step;
  }

  /// Once for each sample, and each one that the layers can use.
  void check_labels(const layers::StepContext& step) const {
    check(!network.reads_labels() || std::ssize(step.labels) == network.batch(),
          "a batch has a label for each sample");
    check(step.mixtures.empty() || (network.label_form() == LabelForm::kMixed &&
                                    std::ssize(step.mixtures) == 2 * network.batch()),
          "a batch has two numbers for each sample where samples are mixtures, and else none");
    for (const Node& node : network.nodes()) node.definition->check_labels(step);
  }

  Device& device;
  const Network& network;
  Program program;
  Parameters parameters;
  Values values;
  Diagnosis diagnosis;
  BatchReception reception;
  Passes passes;
  Buffer numbers;  ///< of the step, where layers read them
  const std::vector<ReportedScalar> scalars;
  /// The scalars of one layer, a row for each sample.
  struct Report {
    int node;
    Tensor output;
    Buffer values;  ///< for the host
  };
  std::vector<Report> reports;
  Event reports_sent;
  TraceRecorder* trace = nullptr;
};

Net::Net(const Network& network, layers::LayerFactory& factory, const Options& options)
    : scalars(network.scalars()),
      state_(std::make_unique<State>(*this, network, factory, options)) {}

Net::~Net() = default;

const Shape& Net::input_shape() const { return state_->network.input(); }
Device& Net::device() const { return state_->device; }
Parameters& Net::parameters() { return state_->parameters; }
const Parameters& Net::parameters() const { return state_->parameters; }
Values& Net::values() { return state_->values; }
Diagnosis& Net::diagnosis() { return state_->diagnosis; }

void Net::set_input(std::span<const float> values) { state_->reception.set(values); }
BatchReception& Net::reception() { return state_->reception; }

layers::StepContext Net::on_device(const layers::StepContext& step) {
  state_->check_labels(step);
  state_->device.write(std::as_bytes(std::span(step.numbers, 1)), state_->numbers.as<std::byte>());
  state_->reception.set_labels(step.labels, step.mixtures);
  return state_->there(step);
}

// ---- passes

void Net::forward(const layers::StepContext& step, const Gate& gate) {
  const layers::StepContext there = on_device(step);
  state_->device.await(state_->reports_sent);
  state_->passes.forward(there, gate);
  state_->send_reports();
}

/// The step's numbers are where the forward pass has put them.
void Net::backward(const layers::StepContext& step, const OnGradient& on_gradient,
                   const BetweenLayers& between_layers) {
  state_->passes.backward(state_->there(step), on_gradient, between_layers);
}

// ---- factors

std::optional<layers::FactorShape> Net::factor_shape(int layer) const {
  const Call* call = state_->program.call_of(layer);
  if (call == nullptr || !call->gives_factors) return std::nullopt;
  return call->definition->factors();
}

void Net::set_factor_memory(int layer, const layers::FactorMemory& memory) {
  state_->program.call_of(layer)->factors = memory;
}

void Net::rebuild(int layer, const layers::FactorMemory& stacked,
                  const layers::GradientSink* sink) {
  Call& call = *state_->program.call_of(layer);
  const TraceScope span(state_->trace, call.labels.rebuild);
  call.layer->rebuild(stacked, state_->program.rebuild_memory(call), sink);
}

void Net::give_gradient(const Parameter& parameter, std::span<const float> canonical,
                        const layers::GradientSink& sink) {
  const Call& call = *state_->program.call_of(parameter.layer);
  call.layer->give_gradient(parameter.index, canonical.data(), call.memory, sink);
}

// ---- results

std::vector<std::vector<float>> Net::read_scalars() const {
  state_->reports_sent.wait();
  std::vector<std::vector<float>> out;
  for (const State::Report& report : state_->reports) {
    const std::span<const float> rows = report.values.as<float>();
    const auto columns = static_cast<size_t>(report.output.shape.channels());
    for (size_t column = 0; column < columns; ++column) {
      std::vector<float>& values = out.emplace_back();
      for (size_t at = column; at < rows.size(); at += columns) values.push_back(rows[at]);
    }
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
    const std::vector<float> values = read_values(state_->device, kept);
    std::vector<float> out;
    for (int64_t n = 0; n < blocking.samples; ++n)
      for (int64_t c = 0; c < blocking.channels; ++c)
        for (int64_t p = 0; p < blocking.area; ++p)
          out.push_back(values[static_cast<size_t>(blocking.offset(n, c, p))]);
    return out;
  }
  throw LogicError("no layer is named " + layer);
}

// ---- what it is

int Net::layer_count() const { return static_cast<int>(state_->network.nodes().size()); }

const std::string& Net::layer_name(int layer) const {
  return state_->network.nodes()[static_cast<size_t>(layer)].definition->name;
}

void Net::set_trace(TraceRecorder* trace) {
  state_->trace = trace;
  state_->passes.set_trace(trace);
  if (trace == nullptr) return;
  for (Call& call : state_->program.calls()) {
    const std::string name = state_->program.name_of(call);
    call.labels = {.forward = trace->label({"compute", "forward", name}),
                   .backward = trace->label({"compute", "backward", name}),
                   .rebuild = trace->label({"compute", "rebuild", name})};
  }
}

Choices Net::choices() const {
  Choices out;
  for (const Call& call : state_->program.calls())
    if (call.definition != nullptr && !(call.layer->choice() == layers::Choice{}))
      out[call.definition->name] = call.layer->choice();
  return out;
}

NetMemory Net::memory() const {
  const Program& program = state_->program;
  const Program::Input input = program.input();
  const size_t batches = state_->reception.bytes(input.samples.shape, input.labels.shape) +
                         sizeof(layers::StepNumbers);
  return {state_->parameters.memory(), program.arena_bytes() - program.scratch_bytes() + batches,
          program.scratch_bytes()};
}

}  // namespace poseidon::net
