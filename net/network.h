#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/extras.h"
#include "core/json.h"
#include "layers/layer.h"

namespace poseidon::net {

struct LayerEntry;

/// One layer of a network, in an order in which every layer comes after its inputs.
struct Node {
  std::unique_ptr<layers::Definition> definition;
  /// How its gradient is to be summed: "ps", "sfb", or "auto". For whoever runs the network on
  /// several machines; only linear layers have the key.
  std::string scheme = "auto";
  /// Indices of nodes; below 0 what comes from outside: kNetworkInput, kNetworkLabel, or what
  /// network_extra() says.
  std::vector<int> inputs;
  int shares = -1;         ///< the node before it whose parameters it uses; -1: its own
  bool is_shared = false;  ///< others use its parameters
  /// A loss depends on its output, or on that of who shares its parameters, or it is one.
  bool reaches_loss = false;
  Shape output;

  /// Those that are its own.
  std::vector<layers::ParameterSpec> parameters() const;
  /// Of a layer whose gradients can be sent as factors, which those of several layers cannot.
  std::optional<layers::FactorShape> factors() const;
};

/// What a layer reports of each sample: a column of its output.
struct ReportedScalar {
  std::string layer, name;  ///< "loss3", "top1"
  int node = 0;
  bool is_loss = false;
  double weight = 0;  ///< of the layer's loss in the total one
};

inline constexpr int kNetworkInput = -1;  ///< a batch's samples
inline constexpr int kNetworkLabel = -2;  ///< their labels
/// The further input at `index` of Network::extras(), and back; negative for what is none.
constexpr int network_extra(int index) { return kNetworkLabel - 1 - index; }
constexpr int extra_index(int input) { return kNetworkLabel - 1 - input; }

/// What labels there are of a batch's samples.
enum class LabelForm : uint8_t {
  kPlain,  ///< (batch, 1)
  /// (3, batch), where samples are mixtures of two: their labels, those of the second ones, and
  /// the shares of these.
  kMixed
};

class Network;
/// How the file names what a node reads.
const std::string& source_name(const Network& network, int input);

/// The keys of a network file, for its JSON Schema.
void describe_network(Fields& fields);

/// A network as its JSON file defines it, blocks expanded, checked, shapes inferred. It knows no
/// device.
class Network {
 public:
  /// Reads and checks a network file for batches of `batch` samples. Throws ConfigError.
  Network(const std::filesystem::path& file, int64_t batch, LabelForm form = LabelForm::kPlain);
  /// The same from JSON that was read elsewhere; `file` names it in messages.
  Network(const Json& json, const std::string& file, int64_t batch,
          LabelForm form = LabelForm::kPlain);

  /// As messages name it.
  const std::string& file() const { return file_; }
  const std::string& name() const { return name_; }
  /// Those of training, but in a network of tests.
  const std::vector<Node>& nodes() const { return nodes_; }
  /// The same network as tests, and all who use what was trained, compute it: its layers of phase
  /// "test" and of both. Itself where no layer is in one phase alone. All parameters and statistics
  /// of its layers are those of layers of the same names here.
  const Network& in_test() const { return test_ == nullptr ? *this : *test_; }
  /// (batch, channels, height, width)
  const Shape& input() const { return input_; }
  /// Inputs beside the samples and their labels, in the order in which batches hold them.
  const std::vector<Extra>& extras() const { return extras_; }
  int64_t batch() const { return input_.samples(); }
  LabelForm label_form() const { return label_form_; }
  /// For layers that read labels.
  Shape label() const {
    return label_form_ == LabelForm::kPlain ? Shape{batch(), 1} : Shape{3, batch()};
  }
  bool reads_labels() const;
  /// Of what a node reads.
  Shape shape_of(int input) const;
  /// The index of a layer's node; none where no layer has the name.
  std::optional<int> index_of(const std::string& name) const;
  /// Those of all layers, in order.
  std::vector<ReportedScalar> scalars() const;
  bool has_loss() const;
  /// Number of scores that the first loss of classes tells apart; 0 where there is none.
  int64_t classes() const;

  int64_t parameter_count() const;
  /// {"name", "parameters", "layers": [...], "activation_bytes", "parameter_bytes"}: every
  /// activation of training once, without reuse, for the batch. Layers that are in one phase alone
  /// say so.
  Json summary() const;
  /// The network's JSON as it was read, before blocks were expanded.
  const Json& json() const { return json_; }

 private:
  /// The one that tests compute, from its layers.
  Network(const Network& trained, const std::vector<LayerEntry>& entries);
  void read_head(int64_t batch);
  void read_layers(const std::vector<LayerEntry>& entries, const Network* trained);
  Node read_layer(const LayerEntry& entry) const;
  void share(Node& node, int owner, const JsonPlace& place);

  std::string file_;
  Json json_;
  std::string name_;
  Shape input_;
  std::vector<Extra> extras_;
  LabelForm label_form_;
  std::vector<Node> nodes_;
  std::map<std::string, int> node_of_;   ///< by name, with the names of what comes from outside
  std::unique_ptr<const Network> test_;  ///< null: no layer is in one phase alone
};

}  // namespace poseidon::net
