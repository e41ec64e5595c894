#!/usr/bin/env python3
"""Measures the time from a layer's contribution to its sum, by layer, where the link is the bottleneck.

    sudo python3 bench/netlab/sums.py [--build build/release] [--network vgg19] [--hosts 4] [--rate 200] [--steps 4]
         [--variant auto] [--congestion reno] [--times FILE] [--record bench/results]

Hosts are as in replay.py: network namespaces with a shaped link, whose device sleeps for the measured time of one core.
For each worker and step, the run's trace gives a time: from the end of a layer's last `contribute` to the end of its
last `receive`. Cells are the median and the longest over workers and steps, without the first step.
"""
import collections
import json
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from lab import Lab  # noqa: E402
import netlab  # noqa: E402
import record  # noqa: E402
import replay  # noqa: E402

COLUMNS = [record.column("layer", "layer"), record.column("sum_ms", "contribution to sum, ms", 0),
           record.column("longest_ms", "longest, ms", 0)]


def latencies(trace):
    """Milliseconds by layer, in the order of the forward pass, with one value for each worker and step."""
    workers = {event["pid"] for event in trace["traceEvents"]
               if event["name"] == "process_name" and event["args"]["name"].startswith("worker")}
    last = {"forward": {}, "contribute": {}, "receive": {}}
    for event in trace["traceEvents"]:
        if event["ph"] == "X" and event["pid"] in workers and event["cat"] in last:
            layer = event["name"].split(" ", 1)[1]
            key, ends = (event["pid"], event["args"]["step"], layer), last[event["cat"]]
            ends[key] = max(ends.get(key, 0), event["ts"] + event["dur"])
    first = min(step for _, step, _ in last["contribute"])
    out = collections.defaultdict(list)
    for key, end in sorted(last["forward"].items(), key=lambda each: each[1]):
        if key[1] > first and key in last["contribute"] and key in last["receive"]:
            out[key[2]].append((last["receive"][key] - last["contribute"][key]) / 1000)
    return out


def main():
    parser = replay.one_lab_parser(__doc__)
    parser.add_argument("--times", type=pathlib.Path, help="output file of --time --json; default: measure the layers")
    record.add_options(parser, "sums")
    options = replay.options_of_one_lab(parser)
    with tempfile.TemporaryDirectory() as folder, Lab(options.hosts, options.rate, options.congestion) as lab:
        times = options.times or replay.layer_times(options, options.network, folder)
        settings = [*netlab.VARIANTS[options.variant], "device.type=replay", f"device.times={times.resolve()}"]
        steps = netlab.poseidon_steps(lab, options, options.network, settings, folder, options.steps, ["--trace"])
        trace = json.loads(next(pathlib.Path(folder).glob("run-*/trace.json")).read_text(encoding="utf-8"))
    rows = [{"layer": layer, "sum_ms": record.rounded(statistics.median(ms)), "longest_ms": record.rounded(max(ms))}
            for layer, ms in latencies(trace).items()]
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    print(f"step: {statistics.median(steps):.0f} ms")
    record.write(options, COLUMNS, rows, sudo=True)


if __name__ == "__main__":
    main()
