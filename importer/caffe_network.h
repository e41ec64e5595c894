#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "importer/message_reader.h"

namespace poseidon::importer {

/// The settings in one "param" block. They apply to one tensor of a layer.
struct CaffeParam {
  std::string name = "";       ///< layers with equal names share the tensor; "": not shared
  double rate = 1, decay = 1;  ///< multipliers of learning rate and weight decay
};

/// One layer of a Caffe network, from the current or the V1 format. `type` is the current format's
/// name ("InnerProduct").
struct CaffeLayer {
  std::string name, type;
  MessageReader message;  ///< reads the other fields, such as "convolution_param"
  std::vector<std::string> bottoms = {}, tops = {};
  std::vector<CaffeParam> params = {};
  std::vector<double> loss_weights = {};  ///< one for each top; empty: defaults
  bool in_training = true, in_testing = true;

  const Place& place() const { return message.place(); }
  /// Returns true for data layers of all types.
  bool is_data_layer() const;
  /// Returns "layer \"conv1\" (Convolution)".
  std::string shown() const;
};

/// An input that the file declares at its top level, outside of layers.
struct CaffeInput {
  std::string name;
  std::vector<int64_t> extents;  ///< empty: not stated
};

/// A network from a prototxt file in the current or the V1 format. Names, phases and types are
/// resolved. The fields of each layer type are not yet interpreted.
class CaffeNetwork {
 public:
  /// Parses `content`. `file` is its name in messages. Throws ConfigError with file, line and
  /// column if the network is invalid.
  CaffeNetwork(std::string_view content, const std::string& file);

  const std::string& name() const { return name_; }
  const std::vector<CaffeInput>& inputs() const { return inputs_; }
  const std::vector<CaffeLayer>& layers() const { return layers_; }
  const MessageReader& top() const { return top_; }

 private:
  void read_state();
  void read_inputs();
  void read_layers();
  CaffeLayer read_layer(const MessageReader& message) const;
  CaffeLayer read_v1_layer(const MessageReader& message) const;
  void read_common(CaffeLayer& layer) const;
  bool takes_part(const MessageReader& layer, const std::string& phase) const;
  bool meets(const MessageReader& rule, const std::string& phase) const;

  std::unique_ptr<TextMessage> root_;
  MessageReader top_;
  std::string name_;
  int64_t level_ = 0;  ///< level and stages are compared with "include" and "exclude" rules
  std::vector<std::string> stages_;
  std::vector<CaffeInput> inputs_;
  std::vector<CaffeLayer> layers_;
};

}  // namespace poseidon::importer
