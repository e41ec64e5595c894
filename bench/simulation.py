#!/usr/bin/env python3
"""Measures with bench_simulation how many messages per second the simulated network processes on one core.

    python3 bench/simulation.py [--build build/release] [--workers 32] [--steps 10] [--record bench/results]

The simulated job has as many servers as workers, and links of 1 Gb/s. It has eight layers of 500,000 parameters with
the parameter-server scheme. Messages have no payload.
"""
import argparse
import pathlib
import sys

import record
import training

HERE = pathlib.Path(__file__).resolve().parent
ABOUT = "simulated network of {} workers and as many servers, on one core"
COLUMNS = [record.column("workers", "workers", 0), record.column("messages", "messages", 0),
           record.column("rate", "messages/s", 0, spread=True)]


def read(text):
    """Parses the rounds in the output of bench_simulation, each as a dictionary by column name."""
    if "did not finish" in text:
        sys.exit(text)
    names, *rounds = (line.split() for line in text.replace("simulated s", "simulated_s").splitlines())
    return [dict(zip(names, map(float, values))) for values in rounds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10)
    record.add_options(parser, "simulation")
    options = parser.parse_args()
    program = options.build / "bin" / "bench_simulation"
    rounds = read(training.run([str(program), str(options.workers), str(options.steps)]))
    row = {"workers": options.workers, "messages": int(rounds[0]["messages"]),
           "rate": record.figure([[one["messages/s"]] for one in rounds])}
    print("\n".join([*record.head(COLUMNS), record.line(COLUMNS, row)]))
    record.write(options, COLUMNS, [row], about=ABOUT.format(options.workers), headline=0)


if __name__ == "__main__":
    main()
