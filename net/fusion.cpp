#include "net/fusion.h"

#include <algorithm>

#include "layers/eltwise.h"
#include "layers/functions.h"

namespace poseidon::net {

namespace {

class Fuser {
 public:
  Fuser(const Network& network, const layers::LayerFactory& factory,
        std::span<const std::string> keep)
      : nodes_(network.nodes()),
        factory_(factory),
        consumers_(nodes_.size()),
        operation_of_(nodes_.size()) {
    for (const Node& node : nodes_)
      for (int input : node.inputs)
        if (input >= 0) ++consumers_[static_cast<size_t>(input)];
    // `keep` counts as one more reader, so no later layer is fused into a kept layer.
    for (size_t i = 0; i < nodes_.size(); ++i)
      consumers_[i] += static_cast<int>(std::ranges::count(keep, nodes_[i].definition->name));
    for (size_t i = 0; i < nodes_.size(); ++i) add(static_cast<int>(i));
  }

  std::vector<Operation> take() {
    std::vector<Operation> out;
    for (std::optional<Operation>& operation : operations_)
      if (operation) out.push_back(std::move(*operation));
    return out;
  }

 private:
  void add(int index) {
    if (fuse_relu(index) || fuse_residual(index)) return;
    place(index, {.node = index,
                  .output = index,
                  .inputs = node(index).inputs,
                  .relu = {},
                  .residual = false});
  }

  bool fuse_relu(int index) {
    const auto* relu = dynamic_cast<const layers::Relu*>(node(index).definition.get());
    if (relu == nullptr || !only_reader(node(index).inputs[0])) return false;
    Operation& before = *operations_[operation_of_[static_cast<size_t>(node(index).inputs[0])]];
    if (before.relu || !factory_.fuses_relu(*node(before.node).definition)) return false;
    before.relu = static_cast<float>(relu->slope);
    before.output = index;
    operation_of_[static_cast<size_t>(index)] =
        operation_of_[static_cast<size_t>(node(index).inputs[0])];
    return true;
  }

  /// Fuses a sum of two inputs into the operation that produces one of them. The other input
  /// becomes the last input of this operation. The operation moves to the position of the sum,
  /// where both inputs are ready.
  bool fuse_residual(int index) {
    const auto* sum = dynamic_cast<const layers::Eltwise*>(node(index).definition.get());
    const std::vector<int>& inputs = node(index).inputs;
    if (sum == nullptr || sum->operation != layers::EltwiseOperation::kSum || inputs.size() != 2)
      return false;
    for (size_t side : {size_t{0}, size_t{1}}) {
      const int branch = inputs[side], other = inputs[1 - side];
      if (branch == other || !only_reader(branch)) continue;
      std::optional<Operation>& before = operations_[operation_of_[static_cast<size_t>(branch)]];
      if (before->relu || before->residual || before->output != branch ||
          !factory_.fuses_residual(*node(before->node).definition))
        continue;
      Operation moved = std::move(*before);
      before.reset();
      moved.inputs.push_back(other);
      moved.residual = true;
      moved.output = index;
      place(index, std::move(moved));
      return true;
    }
    return false;
  }

  bool only_reader(int input) const {
    return input >= 0 && consumers_[static_cast<size_t>(input)] == 1;
  }

  void place(int index, Operation operation) {
    operation_of_[static_cast<size_t>(index)] = operations_.size();
    operations_.push_back(std::move(operation));
  }

  const Node& node(int index) const { return nodes_[static_cast<size_t>(index)]; }

  const std::vector<Node>& nodes_;
  const layers::LayerFactory& factory_;
  std::vector<int> consumers_;
  std::vector<std::optional<Operation>> operations_;
  std::vector<size_t> operation_of_;  ///< by node: index of the operation that writes its output
};

}  // namespace

std::vector<Operation> fuse(const Network& network, const layers::LayerFactory& factory,
                            std::span<const std::string> keep) {
  return Fuser(network, factory, keep).take();
}

}  // namespace poseidon::net
