#!/usr/bin/env python3
"""Compares random convolutions and poolings with PyTorch. The interpreter must be able to import torch.

    PYTHON bench/geometries.py [--build build/release] [--seed N] [--count 300] [--threads 1] [--bf16]
         [--isa x86-64-v3] [--kind convolution|pooling]

Each geometry is timed forward and backward, as a first layer or as a later one. PyTorch uses the better of its two
formats. The runs alternate. The best run of each counts, because the machines are noisy. A ratio is Poseidon's time
divided by PyTorch's. PyTorch runs in a process of its own for each geometry, because it crashes in a few of them. These
are named, and do not count.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
MOST_OPERATIONS = 4e8  # limit on the multiply-adds of a forward pass


def draw(seed, kind):
    """Draws one geometry: {"kind", "batch", "channels", "size", "outputs", "kernel", "stride", ...}."""
    chance = random.Random(seed)

    def pair(least, most):
        first = chance.randint(least, most)
        return [first, first if chance.random() < 0.7 else chance.randint(least, most)]

    while True:
        first = chance.random() < 0.35
        channels = chance.choice([1, 2, 3, 3, 4]) if first else chance.randint(1, 96)
        geometry = {"kind": kind, "batch": chance.choice([2, 4, 8, 16, 32, 64]), "channels": channels, "first": first,
                    "size": pair(5, chance.choice([16, 64, 128])), "kernel": pair(1, chance.choice([3, 5, 11])),
                    "stride": pair(1, 4) if chance.random() < 0.4 else [1, 1], "dilation": [1, 1], "groups": 1}
        if kind == "convolution":
            geometry["outputs"] = chance.randint(1, 96)
            if chance.random() < 0.2:
                geometry["dilation"] = pair(1, 3)
            if not first and chance.random() < 0.25:
                groups = chance.choice([2, 3, 4, channels])
                geometry["groups"] = groups
                geometry["channels"] = groups * max(1, channels // groups)
                geometry["outputs"] = groups * max(1, geometry["outputs"] // groups)
        else:
            geometry["method"] = chance.choice(["max", "average"])
        rows, columns = [[chance.randint(0, k // 2) if chance.random() < 0.7 else 0] * 2 for k in geometry["kernel"]]
        if chance.random() < 0.2:  # different padding on both sides
            rows[1], columns[1] = [chance.randint(0, k // 2) for k in geometry["kernel"]]
        geometry["padding"] = rows + columns
        if fits(geometry):
            return geometry


def output_size(geometry):
    top, bottom, left, right = geometry["padding"]
    return [(size + padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, padding, kernel, stride, dilation in
            zip(geometry["size"], (top + bottom, left + right),
                *(geometry[key] for key in ("kernel", "stride", "dilation")))]


def fits(geometry):
    out = output_size(geometry)
    if min(out) < 1:
        return False
    area = out[0] * out[1] * geometry["kernel"][0] * geometry["kernel"][1]
    work = geometry["batch"] * area * geometry["channels"] * geometry.get("outputs", 1) / geometry["groups"]
    return work <= MOST_OPERATIONS


def layer_of(geometry):
    layer = {"name": "layer", "type": geometry["kind"], "kernel": geometry["kernel"], "stride": geometry["stride"],
             "padding": geometry["padding"]}
    if geometry["kind"] == "convolution":
        layer |= {"outputs": geometry["outputs"], "dilation": geometry["dilation"], "groups": geometry["groups"]}
    else:
        layer |= {"method": geometry["method"], "rounding": "floor"}
    return layer


def job_of(geometry, options):
    """A job with this layer. Unless the layer is the first, a learned layer precedes it, so that it must compute the
    gradient of its input."""
    shape = {"channels": geometry["channels"], "height": geometry["size"][0], "width": geometry["size"][1]}
    before = [] if geometry["first"] else [{"name": "before", "type": "scale"}]
    network = {"name": "geometry", "input": shape, "layers": [
        *before, layer_of(geometry), {"name": "pool", "type": "pooling", "method": "average", "global": True},
        {"name": "top", "type": "linear", "outputs": 2}, {"name": "loss", "type": "softmax_loss"}]}
    data = {"train": {"type": "random", **shape, "classes": 2, "samples": geometry["batch"]},
            "batch_per_worker": geometry["batch"]}
    device = {"threads": options.threads, **({"precision": "bf16"} if options.bf16 else {})}
    return network, {"name": "geometry", "network": "network.json", "data": data,
                     "optimizer": {"type": "sgd", "learning_rate": 0.01}, "train": {"steps": 1, "seed": 1},
                     "device": device}


def our_ms(geometry, options):
    """Milliseconds of forward and backward in Poseidon."""
    with tempfile.TemporaryDirectory() as folder:
        network, job = job_of(geometry, options)
        (pathlib.Path(folder) / "network.json").write_text(json.dumps(network))
        config = pathlib.Path(folder) / "job.json"
        config.write_text(json.dumps(job))
        words = [options.build / "bin" / "poseidon-train", config, "--time", "--json"]
        if options.isa:
            words += ["--isa", options.isa]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{geometry}: {done.stderr}")
        layer = next(layer for layer in json.loads(done.stdout)["layers"] if layer["name"] == "layer")
        return layer["forward_ms"] + layer["backward_ms"]


class Peer:
    """The same layer in PyTorch, in one memory format."""

    def __init__(self, geometry, options, channels_last):
        import torch
        self.torch, self.geometry, self.bf16 = torch, geometry, options.bf16
        shape = (geometry["batch"], geometry["channels"], *geometry["size"])
        top, bottom, left, right = geometry["padding"]
        is_even = top == bottom and left == right
        padding = (top, left) if is_even else 0
        if geometry["kind"] == "convolution":
            self.module = torch.nn.Conv2d(geometry["channels"], geometry["outputs"], geometry["kernel"],
                                          geometry["stride"], padding, geometry["dilation"], geometry["groups"])
        elif geometry["method"] == "max":
            self.module = torch.nn.MaxPool2d(geometry["kernel"], geometry["stride"], padding)
        else:
            self.module = torch.nn.AvgPool2d(geometry["kernel"], geometry["stride"], padding)
        if not is_even:
            value = float("-inf") if geometry.get("method") == "max" else 0.0
            self.module = torch.nn.Sequential(torch.nn.ConstantPad2d((left, right, top, bottom), value), self.module)
        self.input = torch.randn(shape)
        gradient = torch.randn(geometry["batch"], geometry.get("outputs", geometry["channels"]),
                               *output_size(geometry))
        if channels_last:
            self.module = self.module.to(memory_format=torch.channels_last)
            self.input = self.input.contiguous(memory_format=torch.channels_last)
            gradient = gradient.contiguous(memory_format=torch.channels_last)
        if self.bf16:
            self.module, self.input, gradient = self.module.bfloat16(), self.input.bfloat16(), gradient.bfloat16()
        self.gradient = gradient
        self.input.requires_grad_(not geometry["first"])

    def ms(self, repeats=9):
        times = []
        for _ in range(repeats + 2):
            begin = time.perf_counter()
            output = self.module(self.input)
            if output.requires_grad:
                output.backward(self.gradient)
            times.append(1e3 * (time.perf_counter() - begin))
        return statistics.median(times[2:])


def compare(geometry, options):
    peers = [Peer(geometry, options, channels_last) for channels_last in (False, True)]
    ours, theirs = [], []
    for _ in range(options.rounds):
        ours.append(our_ms(geometry, options))
        theirs.append(min(peer.ms() for peer in peers))
    return {"ours": min(ours), "theirs": min(theirs), "ratio": min(ours) / min(theirs), "geometry": geometry}


def compare_apart(geometry, options):
    """compare() in a child process. None: PyTorch has crashed."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=lambda: theirs.send(compare(geometry, options)))
    child.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return None
    finally:
        child.join()


def describe(geometry):
    words = [f"{geometry['channels']} -> {geometry.get('outputs', geometry.get('method'))}",
             "x".join(map(str, geometry["kernel"])), "on " + "x".join(map(str, geometry["size"])),
             f"batch {geometry['batch']}"]
    words += [f"{key} {geometry[key]}" for key in ("stride", "dilation", "padding") if
              any(number != (key != "padding") for number in geometry[key])]
    words += [f"{geometry['groups']} groups"] if geometry["groups"] > 1 else []
    return ", ".join(words + (["first layer"] if geometry["first"] else []))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--kind", choices=["convolution", "pooling"], default="convolution")
    parser.add_argument("--seed", type=int, help="seed of the first geometry; default: from the clock")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--isa", help="instruction-set level of Poseidon; x86-64-v3 also limits PyTorch to AVX2")
    options = parser.parse_args()
    if options.isa == "x86-64-v3":
        os.environ |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    import torch
    torch.set_num_threads(options.threads)
    first = options.seed if options.seed is not None else int(time.time())
    results, seed = [], first
    while len(results) < options.count:
        geometry = draw(seed, options.kind)
        seed += 1
        if (result := compare_apart(geometry, options)) is not None:
            results.append(result)
        else:
            print(f"PyTorch crashed: {describe(geometry)}", flush=True)
    ratios = sorted(result["ratio"] for result in results)
    print(f"{len(results)} {options.kind}s from seed {first}, {options.threads} threads, PyTorch {torch.__version__}")
    print(f"Poseidon's time / PyTorch's: median {statistics.median(ratios):.2f}, over 1.2: "
          f"{sum(r > 1.2 for r in ratios)}, over 2: {sum(r > 2 for r in ratios)}, worst {ratios[-1]:.2f}\n")
    print("| ratio | Poseidon ms | PyTorch ms | geometry |\n|---:|---:|---:|---|")
    for result in sorted(results, key=lambda each: -each["ratio"])[:10]:
        print(f"| {result['ratio']:.2f} | {result['ours']:.3f} | {result['theirs']:.3f} "
              f"| {describe(result['geometry'])} |")


if __name__ == "__main__":
    main()
