#include "exporter/onnx_export.h"

#include <algorithm>
#include <ranges>

#include "core/error.h"
#include "core/file.h"
#include "exporter/batch_norm_folding.h"
#include "exporter/onnx_layer.h"
#include "net/blocks.h"

namespace poseidon::exporter {

namespace {

constexpr uint64_t kMaxModelBytes = (uint64_t{1} << 31) - 1;

const OnnxRules& onnx_rules() {
  static const OnnxRules kRules = [] {
    OnnxRules rules = onnx_function_rules();
    for (const OnnxRules& more :
         {onnx_normalization_rules(), onnx_shape_rules(), onnx_window_rules()})
      rules.insert(more.begin(), more.end());
    return rules;
  }();
  return kRules;
}

/// Returns true for layers that have no output in the model: those that report scalars (losses,
/// accuracies), and silence.
bool is_left_out(const net::Node& node) {
  return !node.definition->scalars().empty() || node.definition->type() == "silence";
}

class OnnxBuilder {
 public:
  OnnxBuilder(const TrainedWeights& trained, const OnnxExport& options)
      : trained_(trained), nodes_(trained.network().in_test().nodes()) {
    const net::Network& network = trained.network().in_test();
    model_.name = network.name();
    model_.producer_version = options.producer_version;
    find_outputs();
    mark_needed();
    norms_ = options.fold_batch_norm ? foldable_norms(network, outputs_)
                                     : std::vector<const net::Node*>(nodes_.size(), nullptr);
  }

  OnnxModel build() {
    const net::Network& network = trained_.network();
    model_.inputs.push_back({net::kInputName, network.input(),
                             "samples after the job's transform: channels (red, green, blue), then "
                             "rows, then columns"});
    put_extras();
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (needed_[i] && !is_folded(nodes_[i])) put(nodes_[i], norms_[i]);
    for (const int output : outputs_) {
      const net::Node& node = nodes_[static_cast<size_t>(output)];
      model_.outputs.push_back({node.definition->name, node.output});
    }
    if (trained_.step()) model_.metadata.emplace_back("step", std::to_string(*trained_.step()));
    return std::move(model_);
  }

 private:
  void add_output(int node) {
    if (node >= 0 && std::ranges::find(outputs_, node) == outputs_.end()) outputs_.push_back(node);
  }

  void find_outputs() {
    std::vector<const net::Node*> losses;
    for (const net::Node& node : nodes_)
      if (node.definition->is_loss()) losses.push_back(&node);
    std::ranges::stable_sort(losses, std::greater{},
                             [](const net::Node* loss) { return loss->definition->loss_weight(); });
    for (const net::Node* loss : losses) add_output(loss->inputs[0]);
    std::vector<bool> is_read(nodes_.size(), false);
    for (const net::Node& node : nodes_)
      for (const int input : node.inputs)
        if (input >= 0) is_read[static_cast<size_t>(input)] = true;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!is_read[i] && !is_left_out(nodes_[i])) add_output(static_cast<int>(i));
    if (outputs_.empty())
      throw ConfigError(trained_.network().file() +
                        ": expected at least one layer before the losses, got none");
  }

  void mark_needed() {
    needed_.assign(nodes_.size(), false);
    for (const int output : outputs_) needed_[static_cast<size_t>(output)] = true;
    for (size_t i = nodes_.size(); i-- > 0;)
      if (needed_[i])
        for (const int input : nodes_[i].inputs)
          if (input >= 0) needed_[static_cast<size_t>(input)] = true;
  }

  /// Adds the auxiliary inputs that the exported layers read.
  void put_extras() {
    const net::Network& network = trained_.network();
    for (size_t i = 0; i < network.extras().size(); ++i) {
      const int input = net::auxiliary_input_number(static_cast<int>(i));
      const auto reads = [&](size_t node) {
        return needed_[node] && std::ranges::count(nodes_[node].inputs, input) > 0;
      };
      const auto all = std::views::iota(size_t{0}, nodes_.size());
      if (std::ranges::any_of(all, reads))
        model_.inputs.push_back({net::source_name(network, input), network.shape_of(input),
                                 "auxiliary input of each sample, as stored in the dataset"});
    }
  }

  bool is_folded(const net::Node& node) const {
    return std::ranges::find(norms_, &node) != norms_.end();
  }

  void put(const net::Node& node, const net::Node* norm) {
    OnnxLayer layer(trained_, node, norm, model_);
    const auto rule = onnx_rules().find(node.definition->type());
    if (rule == onnx_rules().end()) layer.refuse("the exporter does not support this type");
    rule->second(layer);
  }

  const TrainedWeights& trained_;
  const std::vector<net::Node>& nodes_;
  std::vector<int> outputs_;
  std::vector<bool> needed_;
  std::vector<const net::Node*> norms_;
  OnnxModel model_;
};

}  // namespace

OnnxModel make_onnx_model(const TrainedWeights& trained, const OnnxExport& options) {
  return OnnxBuilder(trained, options).build();
}

OnnxReport export_onnx(const TrainedWeights& trained, const OnnxExport& options,
                       const std::filesystem::path& output) {
  const OnnxModel model = make_onnx_model(trained, options);
  const WireWriter bytes = encode(model);
  if (bytes.size() > kMaxModelBytes)
    throw ConfigError(text(trained.network().file(), ": expected an ONNX file of at most ",
                           kMaxModelBytes, " bytes, got ", bytes.size()));
  AtomicFile file(output);
  bytes.write([&file](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
  OnnxReport report{.outputs = {}, .nodes = model.nodes.size(), .tensors = model.tensors.size()};
  for (const OnnxPort& port : model.outputs) report.outputs.push_back(port.name);
  return report;
}

}  // namespace poseidon::exporter
