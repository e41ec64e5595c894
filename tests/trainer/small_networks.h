#pragma once

/// Networks that train in milliseconds, of the layers that the large ones have.
namespace poseidon::trainer {

/// Batch norm with and without a shortcut, relu fused and not, two kinds of pooling, dropout.
inline constexpr const char* kSmallResNet = R"({
  "name": "small-resnet", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn1", "type": "batch_norm"},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "conv2", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1, "bias": false},
    {"name": "bn2", "type": "batch_norm"},
    {"name": "sum", "type": "eltwise", "inputs": ["bn2", "pool1"]},
    {"name": "relu2", "type": "relu"},
    {"name": "pool2", "type": "pooling", "method": "average", "global": true},
    {"name": "drop", "type": "dropout", "probability": 0.3},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

/// LeNet's layers, of fewer and smaller images.
inline constexpr const char* kSmallLenet = R"({
  "name": "small-lenet", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 3, "kernel": 3},
    {"name": "pool1", "type": "pooling", "method": "max", "kernel": 2, "stride": 2},
    {"name": "conv2", "type": "convolution", "outputs": 5, "kernel": 2},
    {"name": "ip1", "type": "linear", "outputs": 10},
    {"name": "relu1", "type": "relu"},
    {"name": "ip2", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

/// Layers that share their parameters: one after another, and both uses of a block.
inline constexpr const char* kSharing = R"({
  "name": "sharing", "input": {"channels": 2, "height": 6, "width": 6},
  "blocks": {"tower": {"layers": [
    {"name": "conv", "type": "convolution", "outputs": 3, "kernel": 3},
    {"name": "relu", "type": "relu"},
    {"name": "ip", "type": "linear", "outputs": 4}]}},
  "layers": [
    {"name": "conv0", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1},
    {"name": "conv1", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1},
    {"name": "conv2", "type": "convolution", "outputs": 3, "kernel": 3, "padding": 1,
     "shares": "conv1"},
    {"name": "a", "type": "block", "block": "tower"},
    {"name": "b", "type": "block", "block": "tower", "input": "conv1", "shares": "a"},
    {"name": "sum", "type": "eltwise", "inputs": ["a", "b"], "operation": "maximum"},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";
/// Layers that choose at random, change shapes, and give what no loss depends on.
inline constexpr const char* kSmallShapes = R"({
  "name": "small-shapes", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3, "padding": 1},
    {"name": "relu1", "type": "relu"},
    {"name": "pool1", "type": "pooling", "method": "stochastic", "kernel": 2, "stride": 2},
    {"name": "up", "type": "deconvolution", "outputs": 4, "kernel": 3, "stride": 2},
    {"name": "part", "type": "crop", "inputs": ["up", "relu1"], "offset": [0, 1]},
    {"name": "twice", "type": "tile", "tiles": 2},
    {"name": "square", "type": "reshape", "shape": [-1, 3, 0]},
    {"name": "ip", "type": "linear", "outputs": 6},
    {"name": "left", "type": "slice", "end": 3},
    {"name": "right", "type": "slice", "input": "ip", "begin": 3},
    {"name": "energy", "type": "reduction", "input": "square", "operation": "sumsq", "coefficient": 0.01},
    {"name": "energies", "type": "tile", "tiles": 3},
    {"name": "sum", "type": "eltwise", "inputs": ["left", "right", "energies"]},
    {"name": "best", "type": "argmax", "top_k": 2, "values": true},
    {"name": "unread", "type": "silence", "inputs": ["best", "pool1"]},
    {"name": "loss", "type": "softmax_loss", "input": "sum"}]})";

}  // namespace poseidon::trainer
