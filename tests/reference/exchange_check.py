#!/usr/bin/env python3
"""Compares poseidon-import and poseidon-export with torchvision and ONNX Runtime, on photographs.

    exchange_check.py --bin build/release/bin --photos FOLDER [NAME]...
    exchange_check.py --bin build/release/bin --layers

NAME is a network of configs/networks; default: all that fit. Needs torch, torchvision, onnx, onnxruntime and
safetensors, and a folder of JPEG files, of which it uses four. For a network that torchvision has, with random
weights and the running statistics of these photographs:

* the scores of the imported network, with the normalization of its job, are those of torchvision;
* the export of the imported network is the same state dict, bit by bit and in the same order;

and for every network, with and without --fold-batch-norm:

* onnx.checker accepts the exported model, and ONNX Runtime gives our scores.

Scores are equal if they differ by at most 1e-4 of the largest one.

With --layers the script compares each case of tests/exporter/onnx_layers.json with ONNX Runtime in the same way, with
random values. A case is a small network of one or a few layers. The script stores in the case the model's text, as the
onnx package reads it. tests/exporter/onnx_export_test.cpp compares its own reading with that text."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import torchvision
from PIL import Image

from network_golden import Expansion, first_values, shapes_of_parameters, uniform
import philox

HERE = pathlib.Path(__file__).parent
NETWORKS = HERE.parents[1] / "configs" / "networks"
LAYERS_FILE = HERE.parents[1] / "tests" / "exporter" / "onnx_layers.json"
# For networks that torchvision has too: torchvision's name, and the layer with the scores.
ARCHS = {"alexnet-torchvision": ("alexnet", "fc3"), "googlenet-torchvision": ("googlenet", "fc"),
         "googlenet-torchvision-plain": ("googlenet-plain", "fc"), "inception_v3-plain": ("inception_v3-plain", "fc"),
         **{name: (name, "fc8" if name.startswith("vgg") else "fc") for name in
            ("efficientnet_b0", "inception_v3", "mobilenet_v2", "resnet18", "resnet50", "resnet152", "vgg11", "vgg16",
             "vgg19")}}
# Networks of torchvision whose weights require transform_input.
TRANSFORMED = ("googlenet", "inception_v3")
MEAN, DEVIATION = (np.float32([v]).reshape(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
SAMPLES, CLOSE = 4, 1e-4


class Check:
    def __init__(self, binaries, photos, name, folder):
        self.binaries, self.name, self.folder = pathlib.Path(binaries), name, pathlib.Path(folder)
        self.photos = sorted(pathlib.Path(photos).rglob("*.JPEG"))[:SAMPLES]
        self.network = json.loads((NETWORKS / (name + ".json")).read_text())

    def program(self, *arguments):
        result = subprocess.run([self.binaries / arguments[0], *map(str, arguments[1:])], capture_output=True)
        if result.returncode != 0:
            sys.exit("%s: %s" % (arguments[0], result.stderr.decode()))
        return result.stdout

    def pixels(self):
        """The pixels of the photographs, 0 to 255, in the shape of the network's input."""
        shape = [self.network["input"].get(key, 1) for key in ("channels", "height", "width")]
        mode = "RGB" if shape[0] == 3 else "L"
        images = [np.asarray(Image.open(photo).convert(mode).resize((shape[2], shape[1]), Image.BILINEAR))
                  for photo in self.photos]
        return np.stack([image.reshape(shape[1], shape[2], -1).transpose(2, 0, 1) for image in images]).astype(np.float32)

    def our_scores(self, network, weights, samples, layers):
        file = self.folder / "samples"
        samples.astype(np.float32).tofile(file)
        return np.frombuffer(self.program("network_scores", network, weights, file, *layers), np.float32)

    def torchvision(self):
        """Returns the folder of the import, and the samples with the transform of its job."""
        torch.manual_seed(1)
        arch, last = ARCHS[self.name]
        model = torchvision_model(arch)
        pixels = self.pixels()
        samples = torch.from_numpy((pixels / 255 - MEAN) / DEVIATION)
        set_statistics(model, samples)
        state = self.folder / "state.safetensors"
        safetensors.torch.save_file(model.state_dict(), state)
        imported = self.folder / "imported"
        self.program("poseidon-import", "torchvision", "--arch", arch, state, imported)
        transform = json.loads((imported / "job.json").read_text())["data"]["test"]["transform"]
        mean, deviation = (np.float32(transform[key]).reshape(3, 1, 1) for key in ("mean", "std"))
        ours = (pixels - mean) / deviation
        with torch.no_grad():
            expected = model.eval()(samples).numpy()
        if np.ptp(expected, 0).max() < 0.01 * np.abs(expected).max():
            sys.exit("the photographs have all the same scores")
        scores = self.our_scores(imported / "network.json", imported / "weights.safetensors", ours, [last])
        self.compare("torchvision", scores, expected)
        exported = self.folder / "exported.safetensors"
        self.program("poseidon-export", "torchvision", imported, exported)
        expect_same_state(model, exported)
        return imported, ours

    def ours(self):
        """The same for a network that torchvision does not have, with random weights."""
        made = self.folder / "made"
        made.mkdir()
        (made / "network.json").write_text(json.dumps(self.network))
        samples = (self.pixels() - 128) / 64
        safetensors.numpy.save_file(random_weights(self.network), made / "weights.safetensors")
        return made, samples

    def onnx(self, folder, samples):
        for options in ([], ["--fold-batch-norm"]):
            file = self.folder / "model.onnx"
            self.program("poseidon-export", "onnx", folder, file, "--force", *options)
            onnx.checker.check_model(str(file), full_check=True)
            session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
            outputs = [output.name for output in session.get_outputs()]
            got = session.run(outputs, {session.get_inputs()[0].name: samples.astype(np.float32)})
            expected = self.our_scores(folder / "network.json", folder / "weights.safetensors", samples, outputs)
            at = 0
            for name, scores in zip(outputs, got):
                self.compare("onnx %s%s" % (name, " folded" if options else ""), scores,
                             expected[at:at + scores.size])
                at += scores.size

    def compare(self, what, got, expected):
        got, expected = got.ravel(), expected.ravel()
        distance = np.abs(got - expected).max() / (np.abs(expected).max() or 1)
        print("%-28s %-24s %.1e (%d scores to %.3g)" % (self.name, what, distance, got.size, np.abs(expected).max()), flush=True)
        if not distance <= CLOSE:
            sys.exit("they differ")


def torchvision_model(name):
    name, *plain = name.split("-")
    options = {"transform_input": True, "init_weights": False} if name in TRANSFORMED else {}
    return getattr(torchvision.models, name)(weights=None, **options, **({"aux_logits": False} if plain else {}))


def set_statistics(model, samples):
    """Sets random scales and shifts of batch norms, and the running statistics of these samples."""
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.uniform_(module.bias, -0.1, 0.1)
            module.momentum = None  # mean of all batches
    model.train()
    with torch.no_grad():
        for _ in range(3):
            model(samples)


def expect_same_state(model, file):
    state = model.state_dict()
    with safetensors.safe_open(file, "pt") as got:
        names = list(got.offset_keys())
        if names != list(state):
            sys.exit("other names, or in another order")
        for name, tensor in state.items():
            other = got.get_tensor(name)
            if other.dtype != tensor.dtype or other.shape != tensor.shape or not torch.equal(other, tensor):
                sys.exit("%s is not the same" % name)
    model.load_state_dict(safetensors.torch.load_file(file), strict=True)


def random_weights(network):
    """Random values for all tensors of one of our networks."""
    values = {}
    extents = [network["input"].get(key, 1) for key in ("channels", "height", "width")]
    shapes = Shapes(network, extents)
    for name, shape in shapes.tensors.items():
        kind = name.rsplit(".", 1)[1]
        if kind == "running_mean":
            value = uniform(philox.name_hash(name), 0, shape[0], -0.1, 0.1)
        elif kind == "running_var":
            value = uniform(philox.name_hash(name), 0, shape[0], 0.5, 1.5)
        else:
            value = first_values(name, shape)
        values[name] = np.asarray(value, np.float32).reshape(shape)
    return values


class Shapes:
    """The shapes of all tensors, computed on PyTorch's meta device."""

    def __init__(self, network, extents):
        from make_golden import LAYERS
        self.tensors = {}
        values = {"input": torch.empty([1, *extents], device="meta")}
        for layer in Expansion(network).layers:
            inputs = [values[name] for name in layer["inputs"] if name in values]
            if layer["type"] in ("dropout", "softmax_loss", "accuracy"):
                values[layer["name"]] = inputs[0]
                continue
            own = shapes_of_parameters(layer, inputs[0])
            for kind, shape in own.items():
                self.tensors["%s.%s" % (layer["name"], kind)] = shape
            if layer["type"] == "batch_norm":
                for kind in ("running_mean", "running_var"):
                    self.tensors["%s.%s" % (layer["name"], kind)] = own["scale"]
            values[layer["name"]] = LAYERS[layer["type"]](
                inputs, [torch.empty(shape, device="meta") for shape in own.values()], layer)


class LayerCheck(Check):
    """A case of the layers file."""

    def __init__(self, binaries, case, folder):
        self.binaries, self.name, self.folder, self.case = pathlib.Path(binaries), case["case"], pathlib.Path(folder), case
        self.network = {"name": "case", "input": case["input"], "layers": case["layers"]}

    def run(self):
        random = np.random.default_rng(1)
        (self.folder / "network.json").write_text(json.dumps(self.network))
        tensors = {name: random.uniform(0.5 if name.endswith("var") else -1, 1.5, shape).astype(np.float32)
                   for name, shape in self.case["tensors"].items()}
        safetensors.numpy.save_file(tensors, self.folder / "weights.safetensors")
        extents = [self.case["input"][key] for key in ("channels", "height", "width")]
        self.onnx(self.folder, random.uniform(-1, 1, [SAMPLES, *extents]))
        self.program("poseidon-export", "onnx", self.folder, self.folder / "model.onnx", "--force")
        return text_of(onnx.load(self.folder / "model.onnx"))


def text_of(model):
    """A line for the input, each node, each tensor and each output. Includes values of tensors without training."""
    def port(value):
        extents = [extent.dim_param or extent.dim_value for extent in value.type.tensor_type.shape.dim]
        return "%s [%s]" % (value.name, ", ".join(map(str, extents)))

    def attribute(each):
        value = onnx.helper.get_attribute_value(each)
        return "%s=%s" % (each.name, "%.6g" % value if isinstance(value, float) else value)

    def tensor(each):
        values = onnx.numpy_helper.to_array(each)
        if ".." not in each.name:
            return "%s %s" % (each.name, list(values.shape))
        return "%s = %s" % (each.name, "%.6g" % values if values.ndim == 0 else values.tolist())

    graph = model.graph
    return (["input " + port(value) for value in graph.input] +
            ["%s(%s) -> %s%s" % (node.op_type, ", ".join(node.input), ", ".join(node.output),
                                 "".join(" " + attribute(each) for each in node.attribute)) for node in graph.node] +
            ["tensor " + tensor(each) for each in graph.initializer] +
            ["output " + port(value) for value in graph.output])


def check_layers(binaries):
    cases = json.loads(LAYERS_FILE.read_text())
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            case["model"] = LayerCheck(binaries, case, folder).run()
    LAYERS_FILE.write_text("[\n" + ",\n".join(case_text(case) for case in cases) + "\n]\n")


def case_text(case):
    lines = ["  %s: %s" % (json.dumps(key), json.dumps(case[key])) for key in ("case", "input", "layers", "tensors")]
    model = ",\n".join("    " + json.dumps(line) for line in case["model"])
    return " {\n%s,\n  \"model\": [\n%s\n  ]\n }" % (",\n".join(lines), model)


def reads_images_alone(file):
    return "inputs" not in json.loads(file.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--photos")
    parser.add_argument("--layers", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.layers:
        return check_layers(arguments.bin)
    for name in arguments.names or sorted(file.stem for file in NETWORKS.glob("*.json") if reads_images_alone(file)):
        with tempfile.TemporaryDirectory() as folder:
            check = Check(arguments.bin, arguments.photos, name, folder)
            check.onnx(*(check.torchvision() if name in ARCHS else check.ours()))


if __name__ == "__main__":
    main()
