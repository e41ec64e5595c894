#!/usr/bin/env python3
"""Compares the training speed of two builds: for example portable and native, or new and old code.

    python3 bench/builds.py --beside build/native [--build build/release] [--rounds 5] [--threads 2]
         [--record bench/results]

Every round runs both builds, in alternating order, on the networks of training.py. A cell is the median over the steps
of all rounds. "times as fast" is the median of the rounds' ratios.
"""
import argparse
import pathlib
import statistics

import record
import training

COLUMNS = [record.column("network", "network"), record.column("batch", "batch", 0),
           record.column("threads", "threads", 0), record.column("beside_ms", "baseline ms", 1, spread=True),
           record.column("build_ms", "build ms", 1, spread=True),
           record.column("times_as_fast", "times as fast", 3, bold=True, spread=True)]
ABOUT = "training, this build compared with another"


def measure(options, case, threads):
    network, job, batch, steps = case
    builds = {"build": options.build, "beside": options.beside}
    times = {name: [] for name in builds}
    for turn in range(options.rounds):
        for name in sorted(builds, reverse=turn % 2 == 1):
            run = argparse.Namespace(build=builds[name], isa=None)
            times[name].append(training.poseidon(run, job, batch, threads, steps)[0])
    each = [statistics.median(old) / statistics.median(new) for old, new in zip(times["beside"], times["build"])]
    return {"network": network, "batch": batch, "threads": threads, "beside_ms": record.figure(times["beside"]),
            "build_ms": record.figure(times["build"]), "times_as_fast": record.ratio(statistics.median(each), each)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=training.HERE.parent / "build" / "release")
    parser.add_argument("--beside", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--networks", default=",".join(case[0] for case in training.CASES))
    record.add_options(parser, "builds")
    options = parser.parse_args()
    rows = []
    print("\n".join(record.head(COLUMNS)), flush=True)
    for case in training.CASES:
        if case[0] in options.networks.split(","):
            rows.append(measure(options, case, options.threads))
            print(record.line(COLUMNS, rows[-1]), flush=True)
    record.write(options, COLUMNS, rows, about=ABOUT)


if __name__ == "__main__":
    main()
