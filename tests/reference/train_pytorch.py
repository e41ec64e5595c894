#!/usr/bin/env python3
"""Writes tests/reference/curves/*.txt: the losses of whole networks trained by PyTorch.

Works with PyTorch from 1.13 on (the committed files are from 2.15): python3 train_pytorch.py. The models are
configs/networks/*.json, written by hand in PyTorch. Weights and batches come from the generator of core/philox.h by
formulas that tests/trainer/pytorch_slow_test.cpp repeats:

    uniform(stream, index, count, low, high): RandomStream(5, GENERATION, stream, index)
    parameter p (its place in network order): stream 100 + p, index 0;
        weight: +-gain * sqrt(3 / fan in), bias and shift: +-0.1, scale: 0.5 to 1.5
    label of sample s: first word of stream 1, index s, modulo the number of classes
    image of sample s: uniform(2, s, -1 to 1) + uniform(3, label, -signal to signal)

Step t uses samples t * batch to (t + 1) * batch - 1. The loss of a step is the mean before its update. The optimizer is
SGD with momentum and weight decay. Learning rate and decay have the multipliers of the network file.
"""

import argparse
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

import philox

HERE = pathlib.Path(__file__).parent
SEED = 5

parser = argparse.ArgumentParser()
parser.add_argument("network", nargs="?", default="all", help="lenet, cifar10_quick or resnet18")
parser.add_argument("--double", action="store_true", help="compute in double precision, to see how far rounding goes")
OPTIONS = parser.parse_args()
DTYPE = torch.float64 if OPTIONS.double else torch.float32


def uniform(stream, index, count, low, high):
    return philox.uniform(SEED, philox.GENERATION, stream, index, count, low, high)


def batch_of(step, batch, shape, classes, signal):
    images, labels = [], []
    count = int(np.prod(shape))
    for sample in range(step * batch, (step + 1) * batch):
        label = int(philox.words(SEED, philox.GENERATION, 1, sample, 1)[0]) % classes
        image = uniform(2, sample, count, -1, 1) + uniform(3, label, count, -signal, signal)
        images.append(image.reshape(shape))
        labels.append(label)
    return torch.from_numpy(np.stack(images)).to(DTYPE), torch.tensor(labels)


class Parameters:
    """Makes parameters in network order at first use. Later passes get the same parameters in the same order."""

    def __init__(self, gain):
        self.tensors, self.multipliers, self.gain, self.next = [], [], gain, 0

    def take(self, shape, low, high, rate=1.0, decay=1.0):
        if self.next == len(self.tensors):
            values = uniform(100 + self.next, 0, int(np.prod(shape)), low, high).reshape(shape)
            self.tensors.append(torch.from_numpy(values.copy()).to(DTYPE).requires_grad_())
            self.multipliers.append((rate, decay))
        self.next += 1
        return self.tensors[self.next - 1]

    def weight(self, shape):
        bound = self.gain * math.sqrt(3.0 / np.prod(shape[1:]))
        return self.take(shape, -bound, bound)


def convolution(p, x, outputs, kernel, stride=1, padding=0, bias_rate=2.0, bias=True):
    weight = p.weight((outputs, x.shape[1], kernel, kernel))
    shift = p.take((outputs,), -0.1, 0.1, rate=bias_rate) if bias else None
    return F.conv2d(x, weight, shift, stride, padding)


def linear(p, x, outputs, bias_rate=2.0):
    x = x.flatten(1)
    weight = p.weight((outputs, x.shape[1]))
    return F.linear(x, weight, p.take((outputs,), -0.1, 0.1, rate=bias_rate))


def lenet(p, x):
    x = F.max_pool2d(convolution(p, x, 20, 5), 2, 2, ceil_mode=True)
    x = F.max_pool2d(convolution(p, x, 50, 5), 2, 2, ceil_mode=True)
    return linear(p, F.relu(linear(p, x, 500)), 10)


def cifar10_quick(p, x):
    x = F.relu(F.max_pool2d(convolution(p, x, 32, 5, padding=2), 3, 2, ceil_mode=True))
    x = F.avg_pool2d(F.relu(convolution(p, x, 32, 5, padding=2)), 3, 2, ceil_mode=True)
    x = F.avg_pool2d(F.relu(convolution(p, x, 64, 5, padding=2)), 3, 2, ceil_mode=True)
    return linear(p, linear(p, x, 64), 10)


def normalized(p, x):
    channels = (x.shape[1],)
    scale = p.take(channels, 0.5, 1.5, decay=0.0)
    shift = p.take(channels, -0.1, 0.1, decay=0.0)
    return F.batch_norm(x, None, None, scale, shift, training=True, eps=1e-5)


def residual_block(p, x, planes, stride, projection):
    y = F.relu(normalized(p, convolution(p, x, planes, 3, stride, 1, bias=False)))
    y = normalized(p, convolution(p, y, planes, 3, 1, 1, bias=False))
    if projection:
        x = normalized(p, convolution(p, x, planes, 1, stride, bias=False))
    return F.relu(y + x)


def resnet18(p, x):
    x = F.relu(normalized(p, convolution(p, x, 64, 7, 2, 3, bias=False)))
    x = F.max_pool2d(x, 3, 2, 1)
    for planes, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        x = residual_block(p, x, planes, stride, stride == 2)
        x = residual_block(p, x, planes, 1, False)
    return linear(p, x.mean((2, 3)), 1000, bias_rate=1.0)


def train(name, model, shape, classes, batch, steps, gain, signal, rate, decay, momentum=0.9):
    parameters = Parameters(gain)
    if OPTIONS.network not in ("all", name):
        return
    velocity, losses = [], []
    for step in range(steps):
        images, labels = batch_of(step, batch, shape, classes, signal)
        parameters.next = 0
        loss = F.cross_entropy(model(parameters, images), labels)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, parameters.tensors)
        if not velocity:
            velocity = [torch.zeros_like(t) for t in parameters.tensors]
            print("%s: %d parameters" % (name, sum(t.numel() for t in parameters.tensors)))
        with torch.no_grad():
            for tensor, v, g, (rate_factor, decay_factor) in zip(parameters.tensors, velocity, gradients,
                                                                 parameters.multipliers):
                v.mul_(momentum).add_(g + decay * decay_factor * tensor)
                tensor.sub_(rate * rate_factor * v)
    (HERE / "curves" / (name + ".txt")).write_text("".join("%.9g\n" % loss for loss in losses))
    print(" ".join("%.5f" % loss for loss in losses))


def main():
    torch.set_num_threads(1)
    train("lenet", lenet, (1, 28, 28), 10, batch=64, steps=100, gain=1, signal=0.25,
          rate=0.0005, decay=0.0005)
    train("cifar10_quick", cifar10_quick, (3, 32, 32), 10, batch=100, steps=100, gain=1, signal=1,
          rate=0.001, decay=0.004)
    train("resnet18", resnet18, (3, 64, 64), 1000, batch=16, steps=20, gain=math.sqrt(2), signal=1,
          rate=0.0002, decay=0.0001)


if __name__ == "__main__":
    main()
