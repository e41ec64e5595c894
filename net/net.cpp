#include "net/net.h"

#include "core/error.h"
#include "core/memory.h"
#include "net/passes.h"
#include "net/programs.h"

namespace poseidon::net {

namespace {

/// The program of one phase, and the scalars that its layers report.
struct PhaseRun {
  PhaseRun(Device& device, const Network& definition, Program& calls)
      : network(definition), program(calls), passes(device, calls), scalars(definition.scalars()) {}

  void take_reports(Device& device) {
    for (const ReportedScalar& scalar : scalars) {
      if (!reports.empty() && reports.back().node == scalar.node) continue;
      const Tensor& output = program.call_of(scalar.node)->memory.output;
      reports.push_back({scalar.node, output,
                         device.allocate(stored_bytes(output.shape, kPlainFp32),
                                         MemoryKind::kStaging, "losses")});
    }
  }

  /// Checks that each sample has a label, and that the layers can use all labels.
  void check_labels(const layers::StepContext& step) const {
    check(!network.reads_labels() || std::ssize(step.labels) == network.batch(),
          "a batch has a label for each sample");
    check(step.mixup_labels.empty() || (network.label_form() == LabelForm::kMixed &&
                                        std::ssize(step.mixup_labels) == 2 * network.batch()),
          "a batch of mixed samples has two numbers per sample, any other batch has none");
    for (const Node& node : network.nodes()) node.definition->check_labels(step);
  }

  const Network& network;
  Program& program;
  Passes passes;
  const std::vector<ReportedScalar> scalars;
  /// The scalars of one layer; one row for each sample.
  struct Report {
    int node;
    Tensor output;
    Buffer values;  ///< copy in staging memory, for the host
  };
  std::vector<Report> reports;
};

}  // namespace

struct Net::State {
  State(Net& net, const Network& definition, layers::LayerFactory& factory, const Options& options)
      : device(factory.device()),
        network(options.training ? definition : definition.in_test()),
        programs(network, factory,
                 {.training = options.training,
                  .choices = options.choices,
                  .keep = options.keep,
                  .factored = options.factored,
                  .factor_rows = options.factor_rows}),
        parameters(device, network, programs, options.versions),
        values(device, parameters),
        diagnosis(net, programs.main()),
        batch_receiver(device, programs.input().writer, network.extras()),
        main(device, network, programs.main()),
        last(&main) {
    if (programs.tests() != nullptr) tests.emplace(device, network.in_test(), *programs.tests());
    if (!options.allocates_memory) return;
    programs.allocate_memory();
    parameters.allocate_memory();
    values.allocate_memory();
    batch_receiver.allocate_memory(tensors());
    numbers =
        device.allocate(sizeof(layers::StepParameters), MemoryKind::kDevice, "step parameters");
    main.take_reports(device);
    if (tests) tests->take_reports(device);
  }

  BatchReceiver::BatchTensors tensors() const {
    Program::Input input = programs.input();
    return {input.samples, input.labels, std::move(input.extras)};
  }

  PhaseRun& run_of(layers::Phase phase) {
    return tests && phase == layers::Phase::kTest ? *tests : main;
  }

  /// Issues the copy of the scalars to staging memory. Must be the first work of the step in the
  /// stream kSend, so that no other copy of the step delays it.
  void send_reports() {
    reports_sent = device.issue_on_stream(DeviceStream::kSend, device.record(), [this] {
      for (const PhaseRun::Report& report : last->reports) {
        const std::span<float> host = report.values.as<float>();
        device.copy({report.output.as<float>(), host.size()}, host);
      }
    });
  }

  /// Returns `step` with a pointer to its step parameters in device memory. on_device() must have
  /// written them.
  layers::StepContext there(layers::StepContext step) const {
    step.numbers = static_cast<const layers::StepParameters*>(numbers.data());
    return step;
  }

  Device& device;
  const Network& network;
  Programs programs;
  Parameters parameters;
  CanonicalValues values;
  Diagnosis diagnosis;
  BatchReceiver batch_receiver;
  PhaseRun main;
  std::optional<PhaseRun> tests;  ///< none: tests run `main`
  PhaseRun* last;                 ///< the phase of the last forward pass
  Buffer numbers;                 ///< step parameters in device memory
  Event reports_sent;
  TraceRecorder* trace = nullptr;
};

Net::Net(const Network& network, layers::LayerFactory& factory, const Options& options)
    : state_(std::make_unique<State>(*this, network, factory, options)) {}

Net::~Net() = default;

const Shape& Net::input_shape() const { return state_->network.input(); }
Device& Net::device() const { return state_->device; }
Parameters& Net::parameters() { return state_->parameters; }
const Parameters& Net::parameters() const { return state_->parameters; }
CanonicalValues& Net::values() { return state_->values; }
Diagnosis& Net::diagnosis() { return state_->diagnosis; }

void Net::set_input(std::span<const float> values, std::span<const float> extras) {
  state_->batch_receiver.set(values, extras);
}
BatchReceiver& Net::batch_receiver() { return state_->batch_receiver; }

layers::StepContext Net::on_device(const layers::StepContext& step) {
  state_->run_of(step.phase).check_labels(step);
  state_->device.write(std::as_bytes(std::span(step.numbers, 1)), state_->numbers.as<std::byte>());
  state_->batch_receiver.set_labels(step.labels, step.mixup_labels);
  return state_->there(step);
}

// ---- passes

void Net::forward(const layers::StepContext& step, const Gate& gate) {
  const layers::StepContext there = on_device(step);
  state_->device.await(state_->reports_sent);
  state_->last = &state_->run_of(step.phase);
  state_->last->passes.forward(there, gate);
  state_->send_reports();
}

/// Device memory still has the step parameters that forward() wrote.
void Net::backward(const layers::StepContext& step, const OnGradient& on_gradient,
                   const BetweenLayers& between_layers, int64_t gradients_per_group) {
  state_->main.passes.backward(state_->there(step), on_gradient, between_layers,
                               gradients_per_group);
}

// ---- factors

std::optional<layers::FactorShape> Net::factor_shape(int layer) const {
  const Call* call = state_->programs.main().call_of(layer);
  if (call == nullptr || !call->writes_factors) return std::nullopt;
  return call->definition->factors();
}

void Net::set_factor_memory(int layer, const layers::FactorMemory& memory) {
  state_->programs.main().call_of(layer)->factors = memory;
}

void Net::rebuild(int layer, const layers::FactorMemory& stacked,
                  const layers::GradientSink* sink) {
  Program& program = state_->programs.main();
  Call& call = *program.call_of(layer);
  const TraceScope span(state_->trace, call.labels.rebuild);
  call.layer->rebuild(stacked, program.rebuild_memory(call), sink);
}

void Net::pack_gradient(const Parameter& parameter, std::span<const float> canonical,
                        const layers::GradientSink& sink) {
  const Call& call = *state_->programs.main().call_of(parameter.layer);
  call.layer->pack_gradient(parameter.index, canonical.data(), call.memory, sink);
}

// ---- results

std::vector<ScalarValues> Net::read_scalars() const {
  state_->reports_sent.wait();
  std::vector<ScalarValues> out;
  for (const ReportedScalar& scalar : state_->last->scalars) out.push_back({scalar, {}});
  size_t next = 0;
  for (const PhaseRun::Report& report : state_->last->reports) {
    const std::span<const float> rows = report.values.as<float>();
    const auto columns = static_cast<size_t>(report.output.shape.channels());
    for (size_t column = 0; column < columns; ++column, ++next)
      for (size_t at = column; at < rows.size(); at += columns)
        out[next].values.push_back(rows[at]);
  }
  return out;
}

std::vector<float> Net::output(const std::string& layer) const {
  const PhaseRun& last = *state_->last;
  const std::optional<int> node = last.network.index_of(layer);
  if (!node) throw LogicError("no layer is named " + layer);
  const Tensor kept = last.program.kept_output(*node);
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

// ---- properties

int Net::layer_count() const { return static_cast<int>(state_->network.nodes().size()); }

const std::string& Net::layer_name(int layer) const {
  return state_->network.nodes()[static_cast<size_t>(layer)].definition->name;
}

void Net::set_trace(TraceRecorder* trace) {
  state_->trace = trace;
  state_->main.passes.set_trace(trace);
  if (trace == nullptr) return;
  Program& program = state_->programs.main();
  for (Call& call : program.calls()) {
    const std::string name = program.name_of(call);
    call.labels = {.forward = trace->label({"compute", "forward", name}),
                   .backward = trace->label({"compute", "backward", name}),
                   .rebuild = trace->label({"compute", "rebuild", name})};
  }
}

Choices Net::choices() const {
  Choices out;
  for (const Call& call : state_->programs.main().calls())
    if (call.definition != nullptr && !(call.layer->choice() == layers::AlgorithmChoice{}))
      out[call.definition->name] = call.layer->choice();
  return out;
}

NetMemory Net::memory() const {
  const Programs& programs = state_->programs;
  const size_t batches =
      state_->batch_receiver.bytes(state_->tensors()) + sizeof(layers::StepParameters);
  return {state_->parameters.memory(), programs.arena_bytes() - programs.scratch_bytes() + batches,
          programs.scratch_bytes() + state_->values.bytes()};
}

}  // namespace poseidon::net
