#!/usr/bin/env python3
"""Writes tests/reference/golden/torchvision/NAME.json: the names and shapes of a torchvision network's state dict, in
order. For some networks also the scores of a sample.

    torchvision_golden.py [NAME]...        all networks if none is named

Needs torch and torchvision (the committed files are from 0.29.2). All values are functions of names and indices, by the
generator of core/philox.h. tests/exporter/torchvision_slow_test.cpp uses the same values, by torchvision's names:

    uniform(stream, index, count, low, high): RandomStream(11, GENERATION, stream, index)
    tensor: stream FNV-1a of its name, index 0, from -0.1 to 0.1, but for
        weights of convolutions and linear layers: +-sqrt(6 / fan in)
        scale and running variance of batch norms: 0.5 to 1.5; num_batches_tracked: 7
    sample: stream 1, index 0, from -1 to 1

The scores are in double precision. "distance" is the error of single precision, relative to the largest score.
inception_v3 and googlenet are computed without transform_input, whose effect is part of a job's transform."""

import json
import math
import pathlib
import sys

import torch
import torchvision

import philox
from network_golden import uniform

HERE = pathlib.Path(__file__).parent
SCORED = ["alexnet", "efficientnet_b0", "googlenet", "inception_v3", "mobilenet_v2", "resnet18", "resnet50"]
NAMES = sorted(SCORED + ["resnet152", "vgg11", "vgg16", "vgg19"])
# Networks whose initialization would take long.
INITIALIZED = ("googlenet", "inception_v3", "vgg11", "vgg16", "vgg19")


def made(name, tensor):
    if name.endswith("num_batches_tracked"):
        return torch.tensor(7)
    low, high = -0.1, 0.1
    if tensor.dim() > 1:
        high = math.sqrt(6.0 / math.prod(tensor.shape[1:]))
        low = -high
    elif name.endswith((".weight", ".running_var")):
        low, high = 0.5, 1.5
    values = uniform(philox.name_hash(name), 0, tensor.numel(), low, high)
    return torch.from_numpy(values).to(tensor.dtype).reshape(tensor.shape)


def scores_of(model, size):
    model.load_state_dict({name: made(name, tensor) for name, tensor in model.state_dict().items()})
    sample = torch.from_numpy(uniform(1, 0, 3 * size * size, -1, 1).reshape(1, 3, size, size))
    model.eval()
    with torch.no_grad():
        single = model.float()(sample.float())[0].double()
        exact = model.double()(sample.double())[0]
    distance = ((single - exact).abs().max() / exact.abs().max()).item()
    return {"scores": [float("%.7g" % score) for score in exact.tolist()], "distance": float("%.2g" % distance)}


def text_of(golden):
    tensors = ",\n".join("    " + json.dumps(tensor) for tensor in golden["tensors"])
    rest = "".join(",\n  %s: %s" % (json.dumps(key), json.dumps(golden[key])) for key in golden if key != "tensors")
    return '{\n  "tensors": [\n%s\n  ]%s\n}\n' % (tensors, rest)


def main():
    for name in sys.argv[1:] or NAMES:
        options = {"init_weights": False} if name in INITIALIZED else {}
        with torch.device("cpu" if name in SCORED else "meta"):
            model = getattr(torchvision.models, name)(weights=None, **options)
        golden = {"tensors": [[key, list(tensor.shape)] for key, tensor in model.state_dict().items()]}
        if name in SCORED:
            golden |= scores_of(model, 299 if name == "inception_v3" else 224)
        (HERE / "golden" / "torchvision" / (name + ".json")).write_text(text_of(golden))
        print(name, len(golden["tensors"]), golden.get("distance"), max(map(abs, golden.get("scores", [0]))), flush=True)


if __name__ == "__main__":
    main()
