#!/usr/bin/env python3
"""Writes tests/reference/golden/networks/NAME.json: the loss of each network of configs/networks at full size, and the
norm of each parameter's gradient, computed by PyTorch in double precision.

    network_golden.py [NAME]...        all networks if none is named

Works with PyTorch from 1.13 on (the committed files are from 2.15). A network is computed layer by layer from its file,
without dropout. All values are functions of names and indices, by the generator of core/philox.h.
tests/net/networks_slow_test.cpp uses the same values:

    uniform(stream, index, count, low, high): RandomStream(11, GENERATION, stream, index)
    parameter: stream FNV-1a of its name, index 0;
        weight: +-sqrt(6 / fan in), bias and shift: +-0.1, scale: 0.5 to 1.5
    image of sample s: stream 1, index s, from -1 to 1
    auxiliary input k of sample s: stream 3 + k, index s, from -1 to 1
    label of sample s: first word of stream 2, index s, modulo the number of classes, or 2 where a loss has none

The loss is the mean over the batch of all weighted losses. "gradients" contains two numbers for each parameter. The
first is the norm of its gradient. The second is the error of PyTorch in single precision: the norm of the difference,
relative to the first number. "distance" is the relative error of the loss.

In single precision, a sum near zero may have either sign, which switches a relu. So the errors are the largest of four
passes. In three of them, the last bits of all weights are random.
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch

import philox
from make_golden import LAYERS, LOSSES

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parents[1] / "bench"))
from network_file import Expansion  # noqa: E402

NETWORKS = HERE.parents[1] / "configs" / "networks"
SEED, BATCH, PASSES = 11, 2, 4


def uniform(stream, index, count, low, high):
    return philox.uniform(SEED, philox.GENERATION, stream, index, count, low, high)


def first_values(name, shape):
    kind = name.rsplit(".", 1)[1]
    bound = math.sqrt(6.0 / math.prod(shape[1:])) if kind == "weight" else 0.1
    low, high = (0.5, 1.5) if kind == "scale" else (-bound, bound)
    return uniform(philox.name_hash(name), 0, math.prod(shape), low, high).reshape(shape)


def shapes_of_parameters(layer, x):
    """Shapes by parameter name, for an input with the shape of x."""
    if layer["type"] == "batch_norm":
        return {"scale": (x.shape[1],), "shift": (x.shape[1],)}
    if layer["type"] == "linear":
        shapes = {"weight": (layer["outputs"], x[0].numel())}
    elif layer["type"] == "convolution":
        kernel = layer["kernel"] if isinstance(layer["kernel"], list) else [layer["kernel"]] * 2
        shapes = {"weight": (layer["outputs"], x.shape[1] // layer.get("groups", 1), *kernel)}
    else:
        return {}
    return {**shapes, "bias": (layer["outputs"],)} if layer.get("bias", True) else shapes


class Pass:
    """A forward and backward pass of a network. `values` keeps the first values of the parameters between passes.
    `noise` above 0 is a seed that randomizes the last bits of these values."""

    def __init__(self, network, dtype, values, noise=0):
        self.dtype, self.first_values, self.parameters, self.loss = dtype, values, {}, 0.0
        self.noise = np.random.default_rng(noise) if noise else None
        extents = [network["input"].get(key, 1) for key in ("channels", "height", "width")]
        images = [uniform(1, sample, math.prod(extents), -1, 1).reshape(extents) for sample in range(BATCH)]
        values = {"input": torch.from_numpy(np.stack(images)).to(dtype)}
        for place, extra in enumerate(network.get("inputs", [])):
            rows = [uniform(3 + place, sample, math.prod(extra["shape"]), -1, 1).reshape(extra["shape"])
                    for sample in range(BATCH)]
            values[extra["name"]] = torch.from_numpy(np.stack(rows)).to(dtype)
        for layer in Expansion(network).layers:
            values[layer["name"]] = self.output(layer, [values[name] for name in layer["inputs"]])
        del values
        gradients = torch.autograd.grad(self.loss, list(self.parameters.values()))
        self.loss = self.loss.item()
        self.gradients = {name: gradient.numpy() for name, gradient in zip(self.parameters, gradients)}

    def output(self, layer, inputs):
        if layer["type"] == "dropout":
            return inputs[0]
        if layer["type"] in LOSSES:
            return self.add_loss(layer, [values.flatten(1) for values in inputs])
        own = [self.parameter(layer["parameters of"] + "." + name, shape)
               for name, shape in shapes_of_parameters(layer, inputs[0]).items()]
        return LAYERS[layer["type"]](inputs, own, layer)

    def parameter(self, name, shape):
        if name in self.parameters:
            return self.parameters[name]
        if name not in self.first_values:
            self.first_values[name] = first_values(name, shape)
        values = self.first_values[name]
        if self.noise is not None:
            steps = self.noise.integers(-1, 2, shape, np.int8)
            values = values * (1 + steps * np.float32(2.0 ** -23))
        self.parameters[name] = torch.from_numpy(values).to(self.dtype).requires_grad_()
        return self.parameters[name]

    def add_loss(self, layer, rows):
        classes = rows[0].shape[1] if len(rows) == 1 else 2
        labels = torch.tensor([int(philox.words(SEED, philox.GENERATION, 2, sample, 1)[0]) % classes
                               for sample in range(BATCH)])
        self.loss = self.loss + layer.get("weight", 1.0) * LOSSES[layer["type"]](rows, labels, layer).mean()


def golden_of(network):
    values = {}
    exact = Pass(network, torch.float64, values)
    lengths = {name: np.linalg.norm(gradient) for name, gradient in exact.gradients.items()}
    furthest, furthest_loss = dict.fromkeys(lengths, 0.0), 0.0
    for noise in range(PASSES):
        single = Pass(network, torch.float32, values, noise)
        furthest_loss = max(furthest_loss, abs(single.loss - exact.loss) / exact.loss)
        for name, gradient in exact.gradients.items():
            distance = np.linalg.norm(single.gradients[name] - gradient) / (lengths[name] or 1.0)
            furthest[name] = max(furthest[name], distance)
    rows = ["    %s: [%.9g, %.2g]" % (json.dumps(name), lengths[name], furthest[name]) for name in lengths]
    return '{\n  "loss": %.12g,\n  "distance": %.2g,\n  "gradients": {\n%s\n  }\n}\n' % (
        exact.loss, furthest_loss, ",\n".join(rows))


def main():
    names = sys.argv[1:] or sorted(file.stem for file in NETWORKS.glob("*.json"))
    for name in names:
        text = golden_of(json.loads((NETWORKS / (name + ".json")).read_text()))
        (HERE / "golden" / "networks" / (name + ".json")).write_text(text)
        content = json.loads(text)
        distances = [distance for _, distance in content["gradients"].values()]
        print("%s: loss %.6f, %d gradients, distances to %.1e" % (
            name, content["loss"], len(distances), max(distances)), flush=True)


if __name__ == "__main__":
    main()
