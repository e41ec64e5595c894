#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/json.h"
#include "layers/layer.h"

namespace poseidon::net {

/// One layer of a network, in an order in which every layer comes after its inputs.
struct Node {
  std::unique_ptr<layers::Definition> definition;
  /// How its gradient is to be summed: "ps", "sfb", or "auto". For whoever runs the network on
  /// several machines; only linear layers have the key.
  std::string scheme = "auto";
  std::vector<int> inputs;    ///< indices of nodes; kNetworkInput for the network's own input
  bool reaches_loss = false;  ///< a loss depends on its output, or it is one
  Shape output;
};

inline constexpr int kNetworkInput = -1;

/// The keys of a network file, for its JSON Schema.
void describe_network(Fields& fields);

/// A network as its JSON file defines it, blocks expanded, checked, shapes inferred. It knows no
/// device.
class Network {
 public:
  /// Reads and checks a network file for batches of `batch` samples. Throws ConfigError.
  Network(const std::filesystem::path& file, int64_t batch);
  /// The same from JSON that was read elsewhere; `file` names it in messages.
  Network(const Json& json, const std::string& file, int64_t batch);

  /// As messages name it.
  const std::string& file() const { return file_; }
  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  /// (batch, channels, height, width)
  const Shape& input() const { return input_; }
  int64_t batch() const { return input_.samples(); }
  /// Number of scores that the first loss layer tells apart.
  int64_t classes() const;

  int64_t parameter_count() const;
  /// {"name", "parameters", "layers": [...], "activation_bytes", "parameter_bytes"}: every
  /// activation once, without reuse, for the batch.
  Json summary() const;
  /// The network's JSON as it was read, before blocks were expanded.
  const Json& json() const { return json_; }

 private:
  void mark_what_reaches_a_loss();

  std::string file_;
  Json json_;
  std::string name_;
  Shape input_;
  std::vector<Node> nodes_;
};

}  // namespace poseidon::net
