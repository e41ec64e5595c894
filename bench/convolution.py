#!/usr/bin/env python3
"""Measures with bench_convolution how near the convolutions of a network come to the multiply-add peak of one thread.

    python3 bench/convolution.py [--build build/release] [--networks alexnet,vgg11] [--rounds 3] [--repeats 7]
         [--record bench/results]

The rounds of the networks are interleaved. The table has a row for each network. In the results file, each row also
lists the convolutions. For Winograd's method the multiply-adds of the direct method count, so it may exceed 100 %.
"""
import argparse
import pathlib
import re
import statistics

import record
import training

HERE = pathlib.Path(__file__).resolve().parent
BATCHES = {"cifar10_quick": 100, "alexnet": 32, "vgg11": 8, "resnet50": 8}
COLUMNS = [record.column("network", "network"), record.column("batch", "batch", 0),
           record.column("peak", "peak GFLOP/s", 0), record.column("rate", "all convolutions GFLOP/s", 0),
           record.column("percent", "% of peak", 0, spread=True)]
TABLE_ROW = re.compile(r"^\| (\S+) \| (\w+, [\w-]+, \w+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
PEAK = re.compile(r"; peak (\d+) GFLOP/s$", re.MULTILINE)
ALL = re.compile(r"^All convolutions: (\d+) GFLOP/s, (\d+) % of peak\.$", re.MULTILINE)


def read(text):
    """Parses the output of bench_convolution."""
    rate, percent = map(int, ALL.search(text).groups())
    parts = {name: (algorithms, list(map(int, rates))) for name, algorithms, *rates in TABLE_ROW.findall(text)}
    return {"peak": int(PEAK.search(text)[1]), "rate": rate, "percent": percent, "convolutions": parts}


def row_of(network, rounds):
    """The medians of the rounds. Each convolution is [name, algorithms, forward GFLOP/s, %, backward GFLOP/s, %]."""
    row = {"network": network, "batch": BATCHES[network]}
    for key in ("peak", "rate", "percent"):
        row[key] = record.figure([[one[key]] for one in rounds])
    row["convolutions"] = []
    for name, (algorithms, _) in rounds[0]["convolutions"].items():
        rates = zip(*(one["convolutions"][name][1] for one in rounds))
        row["convolutions"].append([name, algorithms, *map(statistics.median, rates)])
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--networks", default=",".join(BATCHES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=7, help="timed passes per layer; the median counts")
    record.add_options(parser, "convolution")
    options = parser.parse_args()
    rounds = {name: [] for name in options.networks.split(",")}
    for _ in range(options.rounds):
        for name, results in rounds.items():
            network = HERE.parent / "configs" / "networks" / f"{name}.json"
            words = [options.build / "bin" / "bench_convolution", network, BATCHES[name], 1, options.repeats]
            results.append(read(training.run(list(map(str, words)))))
    rows = [row_of(name, results) for name, results in rounds.items()]
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    record.write(options, COLUMNS, rows)


if __name__ == "__main__":
    main()
