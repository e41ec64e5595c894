#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/auxiliary_input.h"
#include "core/json.h"
#include "layers/layer.h"

namespace poseidon::net {

struct LayerEntry;

/// One layer of a network. Nodes are sorted: every layer comes after its inputs.
struct Node {
  std::unique_ptr<layers::Definition> definition;
  /// How the workers sum the gradient: "ps" (by servers), "sfb" (by factors), or "auto" (as the job
  /// file states). Only linear layers have this key. Only runs with several workers use it.
  std::string scheme = "auto";
  /// Indices of the nodes that it reads. A negative number is an external input: kNetworkInput,
  /// kNetworkLabel, or the result of auxiliary_input_number().
  std::vector<int> inputs;
  int shares = -1;  ///< the earlier node whose parameters it uses; -1: it owns its parameters
  bool is_shared = false;  ///< whether other nodes use its parameters
  /// True if it is a loss, if a loss depends on its output, or if a loss depends on a node that
  /// uses its parameters.
  bool reaches_loss = false;
  Shape output;

  /// The parameters that the node owns; empty if it uses those of another node.
  std::vector<layers::ParameterSpec> parameters() const;
  /// The factor shape, if the gradients can be sent as factors. None if the parameters are shared.
  std::optional<layers::FactorShape> factors() const;
};

/// A scalar that a layer reports for each sample: one column of its output.
struct ReportedScalar {
  std::string layer, name;  ///< for example "loss3", "top1"
  int node = 0;
  bool is_loss = false;
  double weight = 0;  ///< factor of the layer's loss in the total loss; 0: the layer is not a loss
};

inline constexpr int kNetworkInput = -1;  ///< a batch's samples
inline constexpr int kNetworkLabel = -2;  ///< the samples' labels
/// auxiliary_input_number() returns the element of Node::inputs that denotes the auxiliary input at
/// `index` in Network::extras(). auxiliary_input_index() is the inverse; its result is negative for
/// all other inputs.
constexpr int auxiliary_input_number(int index) { return kNetworkLabel - 1 - index; }
constexpr int auxiliary_input_index(int input) { return kNetworkLabel - 1 - input; }

/// The form of a batch's labels.
enum class LabelForm : uint8_t {
  kPlain,  ///< (batch, 1)
  /// (3, batch), for mixed samples (mixup/cutmix). The rows are the first samples' labels, the
  /// second samples' labels, and the second samples' weights.
  kMixed
};

class Network;
/// The name in the network file of `input`, an element of Node::inputs.
const std::string& source_name(const Network& network, int input);

/// The keys of a network file, for its JSON Schema.
void describe_network(Fields& fields);

/// A checked network, as its JSON file defines it. Blocks are expanded, and shapes are inferred. A
/// network does not depend on a device.
class Network {
 public:
  /// Reads and checks a network file for batches of `batch` samples. Throws ConfigError.
  Network(const std::filesystem::path& file, int64_t batch, LabelForm form = LabelForm::kPlain);
  /// Reads and checks a network from JSON that is already parsed. `file` is its name in messages.
  Network(const Json& json, const std::string& file, int64_t batch,
          LabelForm form = LabelForm::kPlain);

  /// The file's name in messages.
  const std::string& file() const { return file_; }
  const std::string& name() const { return name_; }
  /// The training layers; in a network returned by in_test(), the test layers.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// The network that tests, inference and exports compute: the layers in phase "test" and in both
  /// phases. Returns this network if both phases have the same layers. A test layer uses the
  /// parameters and statistics of the training layer with the same name.
  const Network& in_test() const { return test_ == nullptr ? *this : *test_; }
  /// The shape of a batch of samples: (batch, channels, height, width).
  const Shape& input() const { return input_; }
  /// The auxiliary inputs, in the order in which batches contain them.
  const std::vector<AuxiliaryInput>& extras() const { return extras_; }
  int64_t batch() const { return input_.samples(); }
  LabelForm label_form() const { return label_form_; }
  /// The shape of the labels, for layers that read them.
  Shape label() const {
    return label_form_ == LabelForm::kPlain ? Shape{batch(), 1} : Shape{3, batch()};
  }
  bool reads_labels() const;
  /// The shape of `input`, an element of Node::inputs.
  Shape shape_of(int input) const;
  /// The index of the node with this layer name; none if there is no such layer.
  std::optional<int> index_of(const std::string& name) const;
  /// The scalars of all layers, in the order of nodes().
  std::vector<ReportedScalar> scalars() const;
  bool has_loss() const;
  /// The number of classes, which is the number of scores that the first classification loss reads;
  /// 0 if there is no such loss.
  int64_t classes() const;

  int64_t parameter_count() const;
  /// {"name", "parameters", "layers": [...], "activation_bytes", "parameter_bytes"}.
  /// "activation_bytes" is the size of all activations of one training batch, without memory reuse.
  /// A layer that is in only one phase has the key "phase".
  Json summary() const;
  /// The network's JSON as read, before the expansion of blocks.
  const Json& json() const { return json_; }

 private:
  /// Creates the test network of `trained`. `entries` are the layers that tests compute.
  Network(const Network& trained, const std::vector<LayerEntry>& entries);
  void read_head(int64_t batch);
  void read_layers(const std::vector<LayerEntry>& entries, const Network* trained);
  Node read_layer(const LayerEntry& entry) const;
  void share(Node& node, int owner, const JsonPath& place);

  std::string file_;
  Json json_;
  std::string name_;
  Shape input_;
  std::vector<AuxiliaryInput> extras_;
  LabelForm label_form_;
  std::vector<Node> nodes_;
  std::map<std::string, int> node_of_;   ///< by name, including the names of external inputs
  std::unique_ptr<const Network> test_;  ///< null: training and tests have the same layers
};

}  // namespace poseidon::net
