#!/usr/bin/env python3
"""Trains random networks (random_networks.py) with poseidon-train and compares them with PyTorch.

    soak_networks.py --bin build/release/bin --seed 1 --count 500      # needs PyTorch (2.15 was used)
    soak_networks.py --golden 20                                       # writes golden/networks.json

For each seed, the losses of five steps must equal those of PyTorch in double precision. The tolerance is 1e-4 relative,
or twice the error of PyTorch in single precision if that is more. If a value is at the kink of a relu or at a tie of a
maximum, rounding selects the side, in any program. So a seed beyond the tolerance is compared with sixteen runs of
PyTorch in single precision, whose first values differ in their last bits. Such seeds are counted. If the loss is not
finite in PyTorch's single precision, poseidon-train must report that at the same step.

The loss of the final test and the tensors of the last checkpoint (parameters, running statistics, EMA) are compared in
the same way. Runs with 1, 2 and 3 workers must give bitwise equal losses and tensors. So must a run that is stopped
twice and continues with other numbers of workers.
"""

import argparse
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy
import torch

from random_networks import STEPS, make_case
from torch_trainer import Run

HERE = pathlib.Path(__file__).parent
RELATIVE = 1e-4
# Tolerance of tensors: relative to their largest element, or to this least scale.
TENSORS_RELATIVE, LEAST_SCALE = 1e-3, 1e-2
NOISES = range(1, 17)


class Disagreement(Exception):
    pass


def run(options, words, folder):
    """Runs poseidon-train with these arguments."""
    command = [str(options.bin / "poseidon-train"), *words, "--threads", "1", "--json"]
    finished = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=options.timeout)
    if finished.returncode != 0:
        raise Disagreement("%s: exit code %d: %s" % (" ".join(command[1:]), finished.returncode,
                                                     finished.stderr.strip().split("\n")[-1]))


def losses_of(folder):
    """The loss of each step, and of the final test."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    tests = [line["loss"] for line in lines if line["type"] == "test"]  # also at each stop
    return [line["loss"] for line in lines if line["type"] == "train"] + tests[-1:]


def tensors_of(folder):
    """The data of the last checkpoint's safetensors file, after the header."""
    data = (folder / "checkpoints" / ("step-%d.safetensors" % STEPS)).read_bytes()
    return data[8 + int.from_bytes(data[:8], "little"):]


def all_losses(case, dtype, noise=0):
    """The loss of each step, and of the final test."""
    run = Run(case, dtype, noise)
    return [*run.losses, run.test_loss]


def reference(case):
    """The losses in double precision, and the tolerance for each."""
    exact, single = all_losses(case, torch.float64), all_losses(case, torch.float32)
    return exact, [max(RELATIVE * abs(e), 2 * abs(s - e)) for e, s in zip(exact, single)]


def write(case, folder):
    (folder / "network.json").write_text(json.dumps(case.network, indent=1))
    (folder / "job.json").write_text(json.dumps(case.job, indent=1))


def within(losses, exact, tolerance):
    return len(losses) == STEPS + 1 and all(abs(l - e) <= t for l, e, t in zip(losses, exact, tolerance))


def check_losses(case, losses):
    """The largest relative difference; None if it is only within the spread of PyTorch's own runs."""
    exact, tolerance = reference(case)
    if not within(losses, exact, tolerance):
        spread = [all_losses(case, torch.float32, noise) for noise in NOISES]
        wider = [max(t, *(2 * abs(run[step] - exact[step]) for run in spread)) for step, t in enumerate(tolerance)]
        if not within(losses, exact, wider):
            raise Disagreement("losses %s, PyTorch has %s, give or take %s" % (losses, exact, wider))
        return None
    return max(abs(l - e) / (abs(e) or 1) for l, e in zip(losses, exact))


def checkpoint_of(folder):
    """The tensors of the last checkpoint, by name."""
    data = (folder / "checkpoints" / ("step-%d.safetensors" % STEPS)).read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    entries = {name: entry for name, entry in json.loads(data[8:end]).items() if name != "__metadata__"}
    return {name: numpy.frombuffer(data[end + entry["data_offsets"][0]:end + entry["data_offsets"][1]], "<f4")
            for name, entry in entries.items()}


def flat(tensor):
    return tensor.double().numpy().reshape(-1)


def farthest(one, other):
    """The largest difference of two tensors' elements. Running statistics must be finite."""
    return float(abs(one - other).max())


def check_tensors(case, folder):
    """Compares the checkpoint. Returns False if it is only within the spread of PyTorch's own runs."""
    got = checkpoint_of(folder)
    exact, single = Run(case, torch.float64).tensors, Run(case, torch.float32).tensors
    averages = {name for name in exact if name.endswith(".average")}
    missing = (set(exact) ^ set(got)) & (averages | {name for name in got if name.endswith(".average")})
    if missing or set(exact) - set(got):
        raise Disagreement("the checkpoint differs in %s" % sorted(missing | (set(exact) - set(got))))
    off = [name for name, tensor in exact.items() if farthest(got[name], flat(tensor)) > max(
        TENSORS_RELATIVE * max(LEAST_SCALE, float(abs(flat(tensor)).max())),
        2 * farthest(flat(single[name]), flat(tensor)))]
    if not off:
        return True
    spread = [Run(case, torch.float32, noise).tensors for noise in NOISES]
    for name in off:
        distance = farthest(got[name], flat(exact[name]))
        allowed = 2 * max(farthest(flat(run[name]), flat(exact[name])) for run in spread)
        if distance > allowed:
            raise Disagreement("%s is off by %g, PyTorch by at most half of %g" % (name, distance, allowed))
    return False


def cluster(workers):
    """Arguments for this number of workers, with a different number of servers."""
    return ["--workers", str(workers)] + (["--servers", str(3 - workers % 2 - workers // 3)] if workers > 1 else [])


def check_bits(case, options, folder):
    """Compares runs with other numbers of workers, and a run in three parts, bit by bit."""
    expected = losses_of(folder / "one"), tensors_of(folder / "one")
    most = min(3, case.job["cluster"]["logical_shards"])
    runs = {} if options.few else {"%d-workers" % n: [["job.json", *cluster(n)]] for n in range(2, most + 1)}
    runs["resumed"] = [["job.json", "--max-steps", "2", *cluster(min(2, most))],
                       ["--max-steps", "4", *cluster(most)], cluster(1)]
    for name, parts in runs.items():
        for number, words in enumerate(parts):
            run(options, words + ["--output" if number == 0 else "--resume", name], folder)
        if (losses_of(folder / name), tensors_of(folder / name)) != expected:
            raise Disagreement("%s: other bits than one worker: losses %s, %s" %
                               (name, losses_of(folder / name), expected[0]))


def trains(case, options, folder):
    """Runs the job with one worker. Returns False if its losses diverge at the same step as PyTorch's."""
    try:
        run(options, ["job.json", "--output", "one"], folder)
        return True
    except Disagreement as error:
        reported = re.search(r"step (\d+): the loss is -?(nan|inf)", str(error))
        if not reported:
            raise
        losses = all_losses(case, torch.float32)
        if [step for step, loss in enumerate(losses, 1) if not math.isfinite(loss)][:1] != [int(reported[1])]:
            raise
        return False


def check_seed(seed, options):
    """Whether all results agree, and the difference of the losses: None at a kink, infinite if the losses diverge."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="network-%d-" % seed, dir=options.folder))
    case = make_case(seed)
    write(case, folder)
    try:
        if trains(case, options, folder):
            distance = check_losses(case, losses_of(folder / "one"))
            if not check_tensors(case, folder / "one"):
                distance = None
            check_bits(case, options, folder)
        else:
            distance = math.inf
    except (Disagreement, subprocess.TimeoutExpired) as error:
        print("seed %d: %s\n    files: %s" % (seed, error, folder), flush=True)
        return False, None
    shutil.rmtree(folder)
    return True, distance


def soak(options):
    wrong, edges, diverging, worst, kinds = [], [], [], 0.0, set()
    for seed in range(options.seed, options.seed + options.count):
        kinds |= {layer["type"] for layer in make_case(seed).layers}
        agrees, distance = check_seed(seed, options)
        if not agrees:
            wrong.append(seed)
        elif distance is None:
            edges.append(seed)
        elif distance == math.inf:
            diverging.append(seed)
        else:
            worst = max(worst, distance)
        if (seed + 1 - options.seed) % 50 == 0:
            print("%d networks, %d disagree" % (seed + 1 - options.seed, len(wrong)), flush=True)
    print("seeds %d to %d: %d networks of %d types of layers; disagree: %s; at an edge: %s; diverge: %s; largest "
          "distance of a loss elsewhere: %.1e" % (options.seed, options.seed + options.count - 1, options.count,
                                                  len(kinds), wrong or "none", edges or "none", diverging or "none",
                                                  worst))
    return 1 if wrong else 0


def write_golden(count):
    """Writes networks, jobs and losses for the tests, which need no PyTorch."""
    cases = []
    for seed in range(1, count + 1):
        case = make_case(seed)
        exact, tolerance = reference(case)
        cases.append({"seed": seed, "network": case.network, "job": case.job, "losses": exact[:-1],
                      "tolerance": tolerance[:-1], "test_loss": exact[-1], "test_tolerance": tolerance[-1]})
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    (HERE / "golden" / "networks.json").write_text("[\n" + text + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=lambda path: pathlib.Path(path).resolve(),
                        default=pathlib.Path("build/release/bin").resolve(), help="folder of the programs")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--few", action="store_true", help="several workers only in the run that is stopped twice")
    parser.add_argument("--timeout", type=float, default=120, help="of one run, in seconds")
    parser.add_argument("--folder", default=None, help="where files go; those of seeds that disagree stay")
    parser.add_argument("--golden", type=int, default=0, help="write so many cases with their losses instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.folder:
        pathlib.Path(options.folder).mkdir(parents=True, exist_ok=True)
    if options.golden:
        return write_golden(options.golden)
    return soak(options)


if __name__ == "__main__":
    sys.exit(main())
