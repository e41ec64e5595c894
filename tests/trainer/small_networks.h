#pragma once

#include <string>
#include <vector>

/// Networks that train in milliseconds, with the layer types of the large networks.
namespace poseidon::trainer {

/// Batch norm with and without a shortcut, fused and separate relu, two kinds of pooling, dropout.
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

/// LeNet's layers with fewer outputs, for smaller images.
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

/// Layers that share parameters: layers in sequence, and both uses of a block.
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

/// Layers that draw random numbers or change shapes, and outputs that no loss depends on.
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

/// Functions per value and per channel, and normalizations.
inline constexpr const char* kSmallFunctions = R"({
  "name": "small-functions", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 8, "kernel": 3, "padding": 1},
    {"name": "mvn", "type": "mvn"},
    {"name": "scale", "type": "scale", "bias": true},
    {"name": "prelu", "type": "prelu"},
    {"name": "across", "type": "lrn", "size": 3},
    {"name": "within", "type": "lrn", "size": 3, "region": "within_channel"},
    {"name": "bias", "type": "bias"},
    {"name": "absval", "type": "absval"},
    {"name": "power", "type": "power", "power": 1.5, "scale": 0.5, "shift": 0.1},
    {"name": "log", "type": "log", "shift": 1.0},
    {"name": "conv2", "type": "convolution", "outputs": 5, "kernel": 3},
    {"name": "elu", "type": "elu"},
    {"name": "swish", "type": "swish", "input": "conv2"},
    {"name": "bnll", "type": "bnll", "input": "conv2"},
    {"name": "clip", "type": "clip", "input": "conv2", "minimum": -0.5, "maximum": 0.5},
    {"name": "step", "type": "threshold", "input": "conv2"},
    {"name": "all", "type": "concat", "inputs": ["elu", "swish", "bnll", "clip", "step"]},
    {"name": "squeeze", "type": "pooling", "method": "average", "global": true},
    {"name": "gate", "type": "sigmoid"},
    {"name": "gated", "type": "scale", "inputs": ["all", "gate"]},
    {"name": "tanh", "type": "tanh"},
    {"name": "exp", "type": "exp", "scale": 0.5},
    {"name": "product", "type": "eltwise", "inputs": ["tanh", "exp"], "operation": "product"},
    {"name": "flat", "type": "flatten"},
    {"name": "ip", "type": "linear", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

/// All losses: with labels, and with values as targets.
inline constexpr const char* kSmallLosses = R"({
  "name": "small-losses", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv1", "type": "convolution", "outputs": 4, "kernel": 3},
    {"name": "relu1", "type": "relu"},
    {"name": "a", "type": "linear", "outputs": 3},
    {"name": "b", "type": "linear", "outputs": 3, "input": "relu1"},
    {"name": "targets", "type": "sigmoid", "input": "b"},
    {"name": "softmax", "type": "softmax", "input": "a"},
    {"name": "top", "type": "accuracy", "inputs": ["a"], "top_k": [1, 2]},
    {"name": "loss", "type": "softmax_loss", "input": "a", "label_smoothing": 0.1},
    {"name": "likelihood", "type": "multinomial_loss", "input": "softmax", "weight": 0.5},
    {"name": "worth", "type": "infogain_loss", "input": "b", "weight": 0.25,
     "matrix": [1, 0.25, 0, 0.25, 1, 0.5, 0, 0.5, 2]},
    {"name": "hinge1", "type": "hinge_loss", "input": "b", "weight": 0.25},
    {"name": "hinge2", "type": "hinge_loss", "input": "b", "norm": "l2", "weight": 0.25},
    {"name": "distance", "type": "euclidean_loss", "inputs": ["a", "b"], "weight": 0.1},
    {"name": "entropy", "type": "sigmoid_loss", "inputs": ["a", "targets"], "weight": 0.1},
    {"name": "pairs", "type": "contrastive_loss", "inputs": ["a", "b"], "margin": 2.0,
     "weight": 0.1}]})";

/// Auxiliary inputs: a second image, and a row of values that is also a target. kExtras is the list
/// in the data set's settings.
inline constexpr const char* kExtras =
    R"([{"name": "pose", "shape": [4]}, {"name": "map", "shape": [2, 6, 6]}])";
inline constexpr const char* kTwoInputs = R"({
  "name": "two-inputs", "input": {"channels": 2, "height": 6, "width": 6},
  "inputs": [{"name": "map", "shape": [2, 6, 6]}, {"name": "pose", "shape": [4]}],
  "blocks": {"tower": {"layers": [
    {"name": "conv", "type": "convolution", "outputs": 4, "kernel": 3},
    {"name": "relu", "type": "relu"},
    {"name": "ip", "type": "linear", "outputs": 5}]}},
  "layers": [
    {"name": "seen", "type": "block", "block": "tower"},
    {"name": "known", "type": "block", "block": "tower", "input": "map"},
    {"name": "where", "type": "linear", "input": "pose", "outputs": 3},
    {"name": "all", "type": "concat", "inputs": ["seen", "known", "where", "pose"]},
    {"name": "drop", "type": "dropout", "probability": 0.2},
    {"name": "guess", "type": "linear", "outputs": 4},
    {"name": "apart", "type": "euclidean_loss", "inputs": ["guess", "pose"], "weight": 0.125},
    {"name": "ip", "type": "linear", "input": "drop", "outputs": 3},
    {"name": "loss", "type": "softmax_loss"}]})";

/// Overrides that make a job of the tiny network read the auxiliary inputs of kTwoInputs.
inline std::vector<std::string> with_extras(std::vector<std::string> overrides = {}) {
  for (const char* part : {"train", "test"})
    overrides.push_back(std::string("data.") + part + ".extras=" + kExtras);
  return overrides;
}

/// A head and noise that exist only in training, and test layers without trained parameters.
inline constexpr const char* kPhased = R"({
  "name": "phased", "input": {"channels": 2, "height": 6, "width": 6},
  "layers": [
    {"name": "conv", "type": "convolution", "outputs": 5, "kernel": 3, "bias": false,
     "weight_filler": {"type": "xavier"}},
    {"name": "bn", "type": "batch_norm"},
    {"name": "relu", "type": "relu"},
    {"name": "aux_ip", "phase": "train", "type": "linear", "outputs": 3,
     "weight_filler": {"type": "xavier"}},
    {"name": "aux", "phase": "train", "type": "softmax_loss", "weight": 0.3},
    {"name": "noise", "phase": "train", "input": "relu", "type": "dropout"},
    {"name": "ip", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
    {"name": "prob", "phase": "test", "type": "softmax"},
    {"name": "top2", "phase": "test", "input": "ip", "type": "accuracy", "top_k": [2]},
    {"name": "loss", "input": "ip", "type": "softmax_loss"}]})";

}  // namespace poseidon::trainer
