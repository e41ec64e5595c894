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

}  // namespace poseidon::trainer
