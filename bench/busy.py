#!/usr/bin/env python3
"""Compares training speed with PyTorch on a machine that runs other processes, under the same load in the same run.

    python3 bench/busy.py [--build build/release] [--python PYTHON_WITH_TORCH] [--threads 2] [--rounds 5]
         [--record bench/results]

The load is 0, 1 or 2 processes that only compute, with the same priority as the program. Every round runs each program
for a few steps under each load, one after another. A cell is the samples per second over all rounds, without the first
step of each run. It is a mean and not a median, so that a step that waits for another process counts fully. The last
two columns are Poseidon's rate divided by that of one thread, under the same load and on an idle machine.
"""
import argparse
import contextlib
import pathlib
import statistics
import subprocess
import sys

import record
import training

# network, job, batch, steps in a round
CASES = [("lenet", "lenet-digits", 64, 150), ("cifar10_quick", "cifar10_quick-random", 100, 40),
         ("alexnet", "alexnet-random", 32, 4)]
LOADS = [0, 1, 2]
NOTE = "samples per second over all steps"
COLUMNS = [record.column("network", "network"), record.column("load", "other processes", 0),
           record.column("peer_rate", "PyTorch samples/s", 0),
           record.column("poseidon_rate", "Poseidon samples/s", 0, spread=True),
           record.column("times_as_fast", "times as fast", 2, bold=True, spread=True),
           record.column("one_thread_rate", "one thread, same load", 0),
           record.column("alone_rate", "one thread, idle machine", 0),
           record.column("times_one_thread", "ratio to one thread, same load", 2, bold=True, spread=True),
           record.column("part_of_alone", "ratio to one thread", 2)]


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
    """Returns the step times of each program under each load, with a list for each round, and PyTorch's version."""
    network, job, batch, steps = case
    times, version = {}, ""
    for _ in range(options.rounds):
        for load in LOADS:
            with competitors(load):
                if not options.without_pytorch:
                    step_ms, _, version = training.pytorch(options, network, batch, options.threads, steps, [])
                    times.setdefault(("PyTorch", load), []).append(step_ms)
                for name, threads in (("one thread", 1), ("Poseidon", options.threads)):
                    step_ms, _ = training.poseidon(options, job, batch, threads, steps)
                    times.setdefault((name, load), []).append(step_ms)
    return times, version


def row_of(case, load, times):
    network, _, batch, _ = case

    def rate(step_ms):
        return 1e3 * batch / statistics.mean(step_ms)

    def ratio(own, other):
        each = [rate(mine) / rate(theirs) for mine, theirs in zip(times[own], times[other])]
        return record.ratio(rate(sum(times[own], [])) / rate(sum(times[other], [])), each)

    own, peer, one, alone = ("Poseidon", load), ("PyTorch", load), ("one thread", load), ("one thread", 0)
    row = {"network": network, "load": load, "peer_rate": None, "times_as_fast": None,
           "poseidon_rate": record.figure(times[own], rate), "one_thread_rate": record.figure(times[one], rate),
           "alone_rate": record.figure(times[alone], rate), "times_one_thread": ratio(own, one),
           "part_of_alone": ratio(own, alone)}
    if peer in times:
        row.update(peer_rate=record.figure(times[peer], rate), times_as_fast=ratio(own, peer))
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=training.HERE.parent / "build" / "release")
    parser.add_argument("--python", default=sys.executable, help="Python interpreter with PyTorch")
    parser.add_argument("--without-pytorch", action="store_true", help="measure Poseidon only")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", default=",".join(case[0] for case in CASES))
    record.add_options(parser, "busy")
    parser.set_defaults(isa=None)
    options = parser.parse_args()
    rows, version = [], ""
    print("\n".join(record.head(COLUMNS)), flush=True)
    for case in CASES:
        if case[0] not in options.networks.split(","):
            continue
        times, version = measure(options, case)
        for load in LOADS:
            rows.append(row_of(case, load, times))
            print(record.line(COLUMNS, rows[-1]), flush=True)
    record.write(options, COLUMNS, rows, peer=None if options.without_pytorch else f"PyTorch {version}", note=NOTE)


if __name__ == "__main__":
    main()
