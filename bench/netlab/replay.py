#!/usr/bin/env python3
"""Compares step times of clusters with more hosts than this machine has cores with the closed-form optimum.

    sudo python3 bench/netlab/replay.py [--build build/release] [--rates 100,200,1000]
         [--networks vgg19:4,alexnet:8,resnet50:16] [--variants "ps;sfb;auto;auto, bf16"] [--seconds 10] [--batch 8]
         [--densities RUN/traffic.json] [--congestion reno] [--state FILE] [--record bench/results]

This script works like netlab.py, but the workers use the device `replay`. Layers and updates sleep for the measured
time of one core, so that the cores only do the work of the network. In --networks, the number of hosts follows the
name.

With --densities, factors have as many zeros as those of a trained network: the file is the table of moved bytes of a
run (tests/soak/overfit.py --workers 2 --keep RUN, and a few steps more by --resume), whose layers have the same names.

The bound is the best possible step of docs/plan.md for the plan of the run. It uses the same times and the rate that
iperf3 reaches. The table also shows the step of the simulator (--plan --simulate). All hosts share the cores of this
machine, which the bound does not consider. "cores in use" is the share of the cores' time that a step uses, including
packet processing in the kernel. No step of the lab can be shorter than its processor time divided by the cores.

Each measured cell is written to the state file at once. After an interruption, the same command continues after the
last cell. A step's time is a mean: a step that is short because a sum came early is followed by a longer one. The first
two steps do not count.
"""
import argparse
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from lab import Lab  # noqa: E402
import netlab  # noqa: E402
import record  # noqa: E402

BATCH = 8
WARM_UP = 2  # steps that do not count: they touch new memory, and connections start slowly
COLUMNS = [record.column("network", "network"), record.column("hosts", "hosts", 0),
           record.column("link", "link Mb/s", 0), record.column("iperf3", "iperf3 Mb/s", 0),
           record.column("variant", "variant"), record.column("step_ms", "step ms", 0, spread=True),
           record.column("best_ms", "best possible ms", 0), record.column("part_of_best", "best / step", 2, bold=True),
           record.column("simulated_ms", "simulated ms", 0), record.column("simulated_part", "simulated / step", 2),
           record.column("cores_in_use", "cores in use", 2),
           record.column("part_with_processor", "best with cores / step", 2)]
KEYS = ("network", "hosts", "link", "variant")


class State:
    """The measured rows, in a file with one line for each."""

    def __init__(self, path):
        self.path = path
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        self.rows = [json.loads(line) for line in text.splitlines()]

    def find(self, wanted):
        return next((row for row in self.rows if all(row[key] == wanted[key] for key in KEYS)), None)

    def add(self, row):
        self.rows.append(row)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def layer_times(options, network, folder):
    """Runs --time with one worker's batch on one core, and writes the times to a file."""
    path = pathlib.Path(folder) / f"{network}-times.json"
    if not path.exists():
        words = ["taskset", "-c", "0", options.build / "bin" / "poseidon-train", netlab.job(network), "--time", "--json",
                 "--workers", 2, *netlab.settings(options, network, [])]
        done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, check=True)
        times = json.loads(done.stdout)
        if options.densities:
            add_densities(times, json.loads(options.densities.read_text(encoding="utf-8")))
        path.write_text(json.dumps(times), encoding="utf-8")
    return path


def add_densities(times, traffic):
    """Adds each layer's share of nonzero factors. A slice has a bit for each value of 32 bits, and the nonzero values."""
    moved = {layer["name"]: (layer["bytes_sent"] + layer["bytes_received"]) / layer["planned_bytes"]
             for layer in traffic["layers"] if layer["scheme"] == "sfb"}
    for layer in times["layers"]:
        if moved.get(layer["name"], 1) < 0.999:
            layer["factor_density"] = moved[layer["name"]] - 1 / 32
            print(f"{layer['name']}: {layer['factor_density']:.3f} of the factors' values are not zero", flush=True)


class StepEnds:
    """Follows the metrics of a run until `count` steps are done. Stores the result of `look` at the end of each
    step."""

    PERIOD_S = 0.005

    def __init__(self, count, look):
        self.count, self.look, self.seen = count, look, []

    def follow(self, process, metrics):
        while len(self.seen) < self.count and process.poll() is None:
            time.sleep(self.PERIOD_S)
            lines = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
            self.seen += [self.look()] * (lines - len(self.seen))


def busy_ms():
    """Busy milliseconds of all cores since boot. Excludes processes with lower priority, which are not part of the
    lab."""
    user, _, system, _, _, irq, softirq = map(int, pathlib.Path("/proc/stat").read_text().split()[1:8])
    return (user + system + irq + softirq) * 1000 / os.sysconf("SC_CLK_TCK")


def planned(options, network, hosts, overrides, times, rate):
    """The plan of the run, with its prediction and a simulated step."""
    words = [options.build / "bin" / "poseidon-train", netlab.job(network), "--plan", "--simulate", "--workers", hosts,
             "--servers", hosts, "--json", "--times", times,
             *netlab.settings(options, network, [*overrides, f"comm.link_mbps={rate:.1f}"])]
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def measure(lab, options, network, variant, folder, rate):
    overrides = netlab.VARIANTS[variant]
    times = layer_times(options, network, folder)
    replayed = [*overrides, "device.type=replay", f"device.times={times}"]
    plan = planned(options, network, lab.hosts, overrides, times, rate)
    best, simulated = plan["predicted_step_ms"], plan["simulated_step_ms"]
    count = max(2, math.ceil(options.seconds * 1e3 / best))
    busy = StepEnds(WARM_UP + count, busy_ms)
    steps = netlab.poseidon_steps(lab, options, network, replayed, folder, WARM_UP + count - 1,
                                  watch=busy.follow)[WARM_UP - 1:]
    own = {**record.figure([[step] for step in steps], statistics.fmean), "rounds": None}  # extremes are of steps
    in_use = (busy.seen[-1] - busy.seen[WARM_UP - 1]) / os.cpu_count() / sum(steps)
    return {"step_ms": own, "best_ms": record.rounded(best), "part_of_best": record.rounded(best / own["median"]),
            "simulated_ms": record.rounded(simulated), "simulated_part": record.rounded(simulated / own["median"]),
            "cores_in_use": record.rounded(in_use),
            "part_with_processor": record.rounded(max(best / own["median"], in_use))}


def one_lab_parser(description):
    """The options of a program that examines one network on one lab."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "release")
    parser.add_argument("--network", default="vgg19")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--variant", default="auto")
    parser.add_argument("--congestion", default="", help="TCP congestion control on all hosts, for example reno")
    return parser


def options_of_one_lab(parser):
    options = parser.parse_args()
    options.servers_apart, options.densities = False, None
    netlab.BATCHES[options.network] = BATCH
    return options


def cells(options):
    """Yields (network, hosts, rate) for each lab."""
    for network, hosts in (named.split(":") for named in options.networks.split(",")):
        for rate in map(int, options.rates.split(",")):
            yield network, int(hosts), rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "release")
    parser.add_argument("--rates", default="100,200,1000")
    parser.add_argument("--congestion", default="", help="TCP congestion control on all hosts, for example reno")
    parser.add_argument("--networks", default="vgg19:4,alexnet:8,resnet50:16")
    parser.add_argument("--variants", default="ps;sfb;auto;auto, bf16", help="variants, separated by semicolons")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of steps in a cell; at least two steps")
    parser.add_argument("--batch", type=int, default=BATCH, help="samples of a worker")
    parser.add_argument("--densities", type=pathlib.Path, help="traffic.json of a run with factors in fp32")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("netlab-replay.jsonl"))
    record.add_options(parser, "replay")
    options = parser.parse_args()
    options.servers_apart = False
    netlab.BATCHES.update({network: options.batch for network, _, _ in cells(options)})
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("replay: stopped by SIGTERM"))
    state, rows = State(options.state), []
    print("\n".join(record.head(COLUMNS)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for network, hosts, rate in cells(options):
            wanted = [{"network": network, "hosts": hosts, "link": rate, "variant": variant}
                      for variant in options.variants.split(";")]
            if any(state.find(cell) is None for cell in wanted):
                with Lab(hosts, rate, options.congestion) as lab:
                    reached = netlab.link_rate(lab)
                    for cell in wanted:
                        if state.find(cell) is None:
                            figures = measure(lab, options, network, cell["variant"], folder, reached)
                            state.add({**cell, "iperf3": round(reached), **figures})
            for cell in wanted:
                rows.append(state.find(cell))
                print(record.line(COLUMNS, rows[-1]), flush=True)
    record.write(options, COLUMNS, rows, sudo=True, note="means of steps (least and greatest step)")


if __name__ == "__main__":
    main()
