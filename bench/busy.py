#!/usr/bin/env python3
"""Training speed on a machine that is busy with something else, beside PyTorch under the same load, in the same run.

    python3 bench/busy.py [--build build/release] [--python PYTHON_WITH_TORCH] [--threads 2] [--rounds 5]

Beside each program run 0, 1 and 2 processes that only compute, of the same priority. Every round runs each program for
a few steps under each load, one after another; a cell is the samples a second over all rounds but the first step of
each run, that is the mean and not the median: a step that waited for another process's time slice counts in full. The
last column is Poseidon with the same load as a part of what one thread reaches with the machine to itself.
"""
import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys

import training

# network, job, batch, steps in a round
CASES = [("lenet", "lenet-digits", 64, 150), ("cifar10_quick", "cifar10_quick-random", 100, 40),
         ("alexnet", "alexnet-random", 32, 4)]
LOADS = [0, 1, 2]


@contextlib.contextmanager
def competitors(count):
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def measure(options, case):
    network, job, batch, steps = case
    times = {}
    for _ in range(options.rounds):
        step_ms, _ = training.poseidon(options, job, batch, 1, steps)
        times.setdefault("alone", []).extend(step_ms)
        for load in LOADS:
            with competitors(load):
                step_ms, _, _ = training.pytorch(options, network, batch, options.threads, steps, [])
                times.setdefault(("PyTorch", load), []).extend(step_ms)
                step_ms, _ = training.poseidon(options, job, batch, options.threads, steps)
                times.setdefault(("Poseidon", load), []).extend(step_ms)
    return {name: 1e3 * batch / statistics.mean(step_ms) for name, step_ms in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=training.HERE.parent / "build" / "release")
    parser.add_argument("--python", default=sys.executable, help="an interpreter that imports torch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", default=",".join(case[0] for case in CASES))
    options = parser.parse_args()
    print("| network | other processes | PyTorch samples/s | Poseidon samples/s | times as fast | one thread alone | of that |\n"
          "|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for case in CASES:
        if case[0] not in options.networks.split(","):
            continue
        speed = measure(options, case)
        for load in LOADS:
            own, peer = speed["Poseidon", load], speed["PyTorch", load]
            print(f"| {case[0]} | {load} | {peer:.0f} | {own:.0f} | **{own / peer:.2f}** | {speed['alone']:.0f} | "
                  f"{own / speed['alone']:.2f} |", flush=True)


if __name__ == "__main__":
    main()
