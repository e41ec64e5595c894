#!/usr/bin/env python3
"""The peer of bench/training.py: one network in PyTorch, timed step by step.

Prints one JSON object: {"version", "step_ms": [...], "peak_rss_mib"}. The networks are those of
configs/networks, layer for layer; the optimizer is SGD with momentum and weight decay in its fused form. The
batch is made once and reused, so no input pipeline is in the measurement.
"""
import argparse
import json
import resource
import time

import torch
import torch.nn.functional as F
from torch import nn


def relu():
    return nn.ReLU(inplace=True)


class Lrn(nn.Module):
    def forward(self, x):
        return F.local_response_norm(x, 5, 1e-4, 0.75, 1.0)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2, 2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2, 2),
        nn.Flatten(), nn.Linear(800, 500), relu(), nn.Linear(500, 10))


def cifar10_quick():
    return nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True), relu(),
        nn.Conv2d(32, 32, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), relu(), nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))


def classifier(inputs):
    return [nn.Flatten(), nn.Linear(inputs, 4096), relu(), nn.Dropout(), nn.Linear(4096, 4096), relu(), nn.Dropout(),
            nn.Linear(4096, 1000)]


def alexnet():
    return nn.Sequential(
        nn.Conv2d(3, 96, 11, 4), relu(), Lrn(), nn.MaxPool2d(3, 2),
        nn.Conv2d(96, 256, 5, padding=2, groups=2), relu(), Lrn(), nn.MaxPool2d(3, 2),
        nn.Conv2d(256, 384, 3, padding=1), relu(), nn.Conv2d(384, 384, 3, padding=1, groups=2), relu(),
        nn.Conv2d(384, 256, 3, padding=1, groups=2), relu(), nn.MaxPool2d(3, 2), *classifier(9216))


def vgg(*counts):
    layers, channels = [], 3
    for outputs, count in zip((64, 128, 256, 512, 512), counts):
        for _ in range(count):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), relu()]
            channels = outputs
        layers.append(nn.MaxPool2d(2, 2))
    return nn.Sequential(*layers, *classifier(25088))


def vgg11():
    return vgg(1, 1, 2, 2, 2)


def vgg19():
    return vgg(2, 2, 4, 4, 4)


class Bottleneck(nn.Module):
    def __init__(self, inputs, planes, stride):
        super().__init__()
        outputs = 4 * planes
        self.branch = nn.Sequential(
            nn.Conv2d(inputs, planes, 1, bias=False), nn.BatchNorm2d(planes), relu(),
            nn.Conv2d(planes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes), relu(),
            nn.Conv2d(planes, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.project = None
        if stride != 1 or inputs != outputs:
            self.project = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.branch(x)
        y += x if self.project is None else self.project(x)
        return F.relu(y, inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), relu(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for planes, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inputs, planes, stride if i == 0 else 1))
            inputs = 4 * planes
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


NETWORKS = {"lenet": (lenet, (1, 28, 28), 10), "cifar10_quick": (cifar10_quick, (3, 32, 32), 10),
            "alexnet": (alexnet, (3, 227, 227), 1000), "vgg11": (vgg11, (3, 224, 224), 1000),
            "vgg19": (vgg19, (3, 224, 224), 1000),
            "resnet50": (resnet50, (3, 224, 224), 1000)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="autocast")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    make, shape, classes = NETWORKS[options.network]
    net, batch = make(), torch.randn(options.batch, *shape)
    labels = torch.randint(0, classes, (options.batch,))
    if options.channels_last:
        net = net.to(memory_format=torch.channels_last)
        batch = batch.contiguous(memory_format=torch.channels_last)
    if options.compile:
        net = torch.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, weight_decay=5e-4, fused=True)
    times = []
    for _ in range(options.steps + 1):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.bf16):
            loss = F.cross_entropy(net(batch), labels)
        loss.backward()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    print(json.dumps({"version": torch.__version__, "step_ms": times[1:],
                      "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
