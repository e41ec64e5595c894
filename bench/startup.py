#!/usr/bin/env python3
"""Measures the seconds of a poseidon-train process that runs one step of LeNet on generated digits.

    python3 bench/startup.py [--build build/release] [--rounds 7] [--record bench/results]

Prints the median, the least and the greatest time of a process that stops after its first step. The time includes the
process start, reading job and network, making dataset, net and loader, the step, the last checkpoint and the summary.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

import record

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = [record.column("seconds", "seconds", 2, spread=True)]
ABOUT = "LeNet, process start to end of a one-step run"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--rounds", type=int, default=7)
    record.add_options(parser, "startup")
    options = parser.parse_args()
    times = []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory() as folder:
            command = [options.build / "bin" / "poseidon-train", HERE.parent / "configs" / "lenet-digits.json",
                       "--max-steps", "1", "--output", f"{folder}/run", "--set", "data.test=null"]
            start = time.perf_counter()
            done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            times.append(time.perf_counter() - start)
            if done.returncode != 0:
                sys.exit(done.stderr)
    row = {"seconds": record.figure([[one] for one in times])}
    print("\n".join([*record.head(COLUMNS), record.line(COLUMNS, row)]))
    record.write(options, COLUMNS, [row], about=ABOUT, headline=0)


if __name__ == "__main__":
    main()
