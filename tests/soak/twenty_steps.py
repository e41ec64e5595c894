#!/usr/bin/env python3
"""Trains every network of configs/networks at its full size for twenty steps on a few random samples. Its loss must
fall.

    tests/soak/twenty_steps.py --binaries build/release/bin [--threads 1] [NETWORK]...

Default: all networks, one after another. Prints a row for each. The test fails if the mean loss of the last five steps
is not below that of the first five, or if a loss is not finite.
"""
import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
NETWORKS = ROOT / "configs" / "networks"
sys.path.append(str(ROOT / "bench"))
from network_file import Expansion  # noqa: E402

STEPS, ENDS = 20, 5
BATCH = 8
# Batch sizes of networks whose steps take long.
SMALL_BATCHES = {"resnet152": 2, "vgg16": 2, "vgg19": 2, "vgg19-22k": 2}
# Gradients are clipped because the learning rates of the recipes are for batches of 100 and more.
OPTIMIZER = {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9, "clip_norm": 1.0}
HEAD = f"| network | batch | loss of the first {ENDS} | of the last {ENDS} | seconds a step |\n|---|---:|---:|---:|---:|"


def classes_of(network):
    """Number of classes of the loss with the largest weight; 2 (alike or different) if there is no softmax loss."""
    layers = Expansion(network).layers
    outputs = {layer["name"]: layer.get("outputs") for layer in layers}
    losses = [layer for layer in layers if layer["type"] == "softmax_loss"]
    main = max(losses, key=lambda layer: layer.get("weight", 1.0), default=None)
    return outputs[main["inputs"][0]] if main else 2


def job_of(name, batch):
    network = json.loads((NETWORKS / f"{name}.json").read_text())
    data = {"type": "random", "samples": batch, "classes": classes_of(network), **network["input"],
            "extras": network.get("inputs", [])}
    return {"name": f"{name}-twenty-steps", "network": str(NETWORKS / f"{name}.json"),
            "data": {"train": data, "batch_per_worker": batch}, "optimizer": OPTIMIZER,
            "train": {"steps": STEPS, "seed": 1, "log_every": 1, "checkpoint_every": 0}}


def train(binaries, name, batch, threads):
    """The losses of all completed steps. If the run fails, prints its error."""
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "job.json").write_text(json.dumps(job_of(name, batch)))
        done = subprocess.run([binaries / "poseidon-train", folder / "job.json", "--threads", str(threads), "--output",
                               folder / "run"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            print(f"{name}: exit code {done.returncode}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        metrics = folder / "run" / "metrics.jsonl"
        lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return [line["loss"] for line in lines if line["type"] == "train"]


def falls(losses):
    return (len(losses) == STEPS and all(map(math.isfinite, losses)) and
            statistics.mean(losses[-ENDS:]) < statistics.mean(losses[:ENDS]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=1)
    known = sorted(file.stem for file in NETWORKS.glob("*.json"))
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(known))
    options = parser.parse_args()
    if unknown := set(options.networks) - set(known):
        parser.error(f"expected networks of {NETWORKS}, got {', '.join(sorted(unknown))}")
    print(HEAD, flush=True)
    failed = []
    for name in options.networks or known:
        batch, begin = SMALL_BATCHES.get(name, BATCH), time.monotonic()
        losses = train(options.binaries, name, batch, options.threads)
        seconds = (time.monotonic() - begin) / STEPS
        if not falls(losses):
            failed.append(name)
        first, last = (statistics.mean(some or [math.nan]) for some in (losses[:ENDS], losses[-ENDS:]))
        print(f"| {name} | {batch} | {first:.4f} | {last:.4f} | {seconds:.2f} |", flush=True)
    sys.exit(f"{', '.join(failed)}: expected losses that fall" if failed else 0)


if __name__ == "__main__":
    main()
