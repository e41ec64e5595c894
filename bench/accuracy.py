#!/usr/bin/env python3
"""Runs one job from its first step to its test accuracy.

    POSEIDON_DATA=~/data python3 bench/accuracy.py configs/lenet-mnist.json [OPTION OF POSEIDON-TRAIN]...
         [--build build/release] [--record bench/results]

The default name of the claim is accuracy-JOB. A run with other options needs another name, for example
--claim accuracy-JOB-4-workers.
"""
import argparse
import json
import pathlib
import tempfile

import record
import training

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = [record.column("job", "job"), record.column("accuracy", "test accuracy, %", 2),
           record.column("steps", "steps"), record.column("rate", "samples/s", 0),
           record.column("seconds", "total time, s", 0)]


def row_of(job, more, summary, batch):
    top1 = summary["test_top1"]  # null if the run was stopped before its test
    return {"job": f"`{' '.join([job, *more])}`", "accuracy": None if top1 is None else 100 * top1,
            "steps": f"{summary['steps']:,} x {batch}", "rate": summary["samples_per_second"],
            "seconds": summary["wall_seconds"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    record.add_options(parser, "")
    options, more = parser.parse_known_args()
    options.claim = options.claim or f"accuracy-{pathlib.Path(options.job).stem}"
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "run"
        training.run([str(options.build / "bin" / "poseidon-train"), options.job, *more, "--output", str(output)])
        summary = json.loads((output / "summary.json").read_text(encoding="utf-8"))
        data = json.loads((output / "config.json").read_text(encoding="utf-8"))["data"]
    batch = data.get("global_batch") or data["batch_per_worker"] * summary["workers"]
    row = row_of(options.job, more, summary, batch)
    print("\n".join([*record.head(COLUMNS), record.line(COLUMNS, row)]))
    record.write(options, COLUMNS, [row])


if __name__ == "__main__":
    main()
