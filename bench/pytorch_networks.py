"""The networks of configs/networks in PyTorch, layer for layer and in the style of its users. Relus and sums work in
place if no other layer reads their input. No value is kept after its last reader."""
import collections
import json
import pathlib
import warnings

import torch
import torch.nn.functional as F
from torch import nn

from network_file import Expansion

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "configs" / "networks"
NAMES = sorted(file.stem for file in FOLDER.glob("*.json"))
# Layers whose backward pass does not read their output, so that later layers may overwrite it.
UNREAD = ("batch_norm", "convolution", "eltwise", "linear", "pooling")


class Lrn(nn.Module):
    def __init__(self, fields):
        super().__init__()
        self.within = fields.get("region") == "within_channel"
        self.settings = [fields.get(key, usual) for key, usual in
                         (("size", 5), ("alpha", 1.0), ("beta", 0.75), ("k", 1.0))]

    def forward(self, x):
        size, alpha, beta, k = self.settings
        if not self.within:
            return F.local_response_norm(x, size, alpha, beta, k)
        return x * (k + alpha * F.avg_pool2d(x * x, size, 1, size // 2)) ** -beta


class Slice(nn.Module):
    def __init__(self, fields):
        super().__init__()
        self.channels = slice(fields.get("begin"), fields.get("end"))

    def forward(self, x):
        return x[:, self.channels]


class Concat(nn.Module):
    def forward(self, *inputs):
        return torch.cat(inputs, 1)


class Sum(nn.Module):
    def __init__(self, in_place):
        super().__init__()
        self.in_place = in_place

    def forward(self, x, y):
        return x.add_(y) if self.in_place else x + y


class Gated(nn.Module):
    def forward(self, x, gate):
        return x * gate


def pooling(fields):
    if "windows" in fields:
        return nn.AdaptiveAvgPool2d(fields["windows"])
    best = fields.get("method", "max") == "max"
    if fields.get("global"):
        return nn.AdaptiveMaxPool2d(1) if best else nn.AdaptiveAvgPool2d(1)
    return (nn.MaxPool2d if best else nn.AvgPool2d)(
        fields["kernel"], fields.get("stride", 1), fields.get("padding", 0),
        ceil_mode=fields.get("rounding", "ceil") == "ceil")


def convolution(fields):
    return nn.LazyConv2d(fields["outputs"], fields["kernel"], fields.get("stride", 1), fields.get("padding", 0),
                         fields.get("dilation", 1), fields.get("groups", 1), fields.get("bias", True))


def linear(fields):
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(fields["outputs"], fields.get("bias", True)))


def module_of(fields, in_place):
    make = {"batch_norm": lambda: nn.LazyBatchNorm2d(fields.get("epsilon", 1e-5), fields.get("momentum", 0.1)),
            "clip": lambda: nn.Hardtanh(fields["minimum"], fields["maximum"], in_place),
            "concat": Concat,
            "convolution": lambda: convolution(fields),
            "dropout": lambda: nn.Dropout(fields.get("probability", 0.5)),
            "eltwise": lambda: Sum(in_place),
            "linear": lambda: linear(fields),
            "lrn": lambda: Lrn(fields),
            "pooling": lambda: pooling(fields),
            "relu": lambda: nn.ReLU(in_place),
            "scale": Gated,
            "sigmoid": nn.Sigmoid,
            "slice": lambda: Slice(fields),
            "swish": lambda: nn.SiLU(in_place)}
    return make[fields["type"]]()


def contrastive_loss(first, second, labels, margin):
    distance = F.pairwise_distance(first, second)
    return torch.where(labels != 0, distance, (margin - distance).clamp(min=0)).square().mean() / 2


class Network(nn.Module):
    """The network of a network file. forward() returns the inputs of its losses. loss() computes the loss from them."""

    def __init__(self, name):
        super().__init__()
        network = json.loads((FOLDER / f"{name}.json").read_text())
        self.shape = tuple(network["input"].get(key, 1) for key in ("channels", "height", "width"))
        layers = [layer for layer in Expansion(network).layers if layer["type"] != "accuracy"]
        self.losses = [layer for layer in layers if layer["type"].endswith("_loss")]
        self.layers, self.steps = nn.ModuleDict(), []
        self.add([layer for layer in layers if layer not in self.losses],
                 collections.Counter(name for layer in layers for name in layer["inputs"]))
        scores = self.first_outputs()[-1][0]
        self.classes = scores.shape[1] if self.losses[-1]["type"] == "softmax_loss" else 2

    def add(self, layers, readers):
        """Adds the layers. `readers` counts the readers of each value."""
        to_read, types = readers.copy(), {layer["name"]: layer["type"] for layer in layers}
        for layer in layers:
            key, inputs = layer["parameters of"].replace(".", "/"), []
            for name in layer["inputs"]:
                to_read[name] -= 1
                inputs.append((name, to_read[name] == 0))
            in_place = readers[layer["inputs"][0]] == 1 and types.get(layer["inputs"][0]) in UNREAD
            if key not in self.layers:
                self.layers[key] = module_of(layer, in_place)
            self.steps.append((layer["name"], key, inputs))

    def first_outputs(self):
        """Returns the outputs for one sample. This call gives the lazy layers their shapes."""
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            outputs = self.eval()(torch.zeros(1, *self.shape))
        self.train()
        return outputs

    def forward(self, images):
        values = {"input": images}
        for name, key, inputs in self.steps:
            values[name] = self.layers[key](*[values.pop(other) if is_last else values[other]
                                              for other, is_last in inputs])
        return [[values[name] for name in layer["inputs"]] for layer in self.losses]

    def loss(self, outputs, labels):
        total = 0.0
        for layer, inputs in zip(self.losses, outputs):
            if layer["type"] == "contrastive_loss":
                loss = contrastive_loss(*inputs, labels, layer.get("margin", 1.0))
            else:
                loss = F.cross_entropy(*inputs, labels, label_smoothing=layer.get("label_smoothing", 0.0))
            total = total + layer.get("weight", 1.0) * loss
        return total
