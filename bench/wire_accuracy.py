#!/usr/bin/env python3
"""Compares the test accuracy of wire formats over several seeds.

    POSEIDON_DATA=~/data python3 bench/wire_accuracy.py configs/lenet-mnist.json [OPTION OF POSEIDON-TRAIN]...
         [--wires fp32,int8] [--seeds 10] [--shards 4] [--build build/release] [--record bench/results]

Each run has one worker that computes all logical shards. With int8 it has the bits of a job with any number of
workers. The formats of a seed run one after another. "loss" is the mean over the seeds of the accuracy of the first
format minus that of this one, in percentage points, with its standard error.
"""
import argparse
import json
import pathlib
import statistics
import tempfile

import record
import training

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = [record.column("job", "job"), record.column("wire", "wire"), record.column("seeds", "seeds"),
           record.column("accuracy", "mean test accuracy, %", 2), record.column("least", "least, %", 2),
           record.column("loss", "loss, points", 2, bold=True), record.column("error", "standard error", 2)]


def accuracy(options, more, wire, seed):
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "run"
        training.run([str(options.build / "bin" / "poseidon-train"), options.job, "--output", str(output),
                      "--set", f"comm.wire={wire}", "--set", f"train.seed={seed}",
                      "--set", f"cluster.logical_shards={options.shards}", *more])
        return 100 * json.loads((output / "summary.json").read_text(encoding="utf-8"))["test_top1"]


def row_of(job, wire, first, own):
    losses = [one - other for one, other in zip(first, own)]
    spread = statistics.stdev(losses) / len(losses) ** 0.5 if len(losses) > 1 else 0.0
    return {"job": f"`{job}`", "wire": wire, "seeds": len(own), "accuracy": statistics.mean(own), "least": min(own),
            "loss": statistics.mean(losses), "error": spread}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--wires", default="fp32,int8")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--shards", type=int, default=4)
    record.add_options(parser, "")
    options, more = parser.parse_known_args()
    options.claim = options.claim or f"wire-accuracy-{pathlib.Path(options.job).stem}"
    wires = options.wires.split(",")
    found = {wire: [] for wire in wires}
    for seed in range(1, options.seeds + 1):
        for wire in wires:
            found[wire].append(accuracy(options, more, wire, seed))
    rows = [row_of(" ".join([options.job, *more]), wire, found[wires[0]], found[wire]) for wire in wires]
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    record.write(options, COLUMNS, rows)


if __name__ == "__main__":
    main()
