#!/usr/bin/env python3
"""Compares step times over shaped links with the closed-form optimum and with PyTorch's DistributedDataParallel.

    sudo python3 bench/netlab/netlab.py [--build build/release] [--python PYTHON_WITH_TORCH] [--rates 200,1000]
         [--networks alexnet,vgg11,resnet50] [--steps 6] [--rounds 1] [--variants "auto;ps"] [--congestion reno]
         [--hooks none,fp16,powersgd] [--servers-apart] [--isas x86-64-v3,x86-64-v4] [--record bench/results]

Hosts are network namespaces of this machine (lab.py), each with one core and a link of the given rate in Mb/s, shaped
both ways. Each host runs a worker with one thread and a server, in one process or with --servers-apart in two. --isas
gives hosts different instruction sets, in rotation.

The same run also measures:

* the rate that iperf3 reaches over the shaped link
* the layers' times, while all hosts compute at the same time without network
* the peer, PyTorch's DDP over Gloo on the same hosts with the same batch

The bound is the best possible step of docs/plan.md for the plan of the run. It uses the measured layer times and rate.
Each round measures layers, peer and variants again, one after another. Cells are medians of the steps of all rounds,
without the first step of each round, and medians of the rounds' bounds.
"""
import argparse
import json
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
import record  # noqa: E402

BATCHES = {"alexnet": 32, "vgg11": 8, "resnet50": 8}
VARIANTS = {
    "auto": [],
    "auto, barrier": ["comm.overlap=barrier"],
    "auto, no overlap": ["comm.overlap=none"],
    "ps": ["comm.scheme=ps"],
    "sfb": ["comm.scheme=sfb"],
    "time": ["comm.policy=time"],
    "auto, bf16": ["comm.wire=bf16"],
    "auto, int8": ["comm.wire=int8"],
}
COLUMNS = [record.column("network", "network"), record.column("link", "link Mb/s", 0),
           record.column("iperf3", "iperf3 Mb/s", 0), record.column("variant", "variant"),
           record.column("step_ms", "step ms", 0, spread=True), record.column("best_ms", "best possible ms", 0),
           record.column("part_of_best", "best / step", 2, spread=True), record.column("ddp_ms", "DDP ms", 0),
           record.column("hook", "hook"),
           record.column("times_as_fast", "times as fast", 2, bold=True, spread=True)]


def job(network):
    return HERE.parent.parent / "configs" / f"{network}-random.json"


def settings(options, network, overrides):
    values = [f"data.batch_per_worker={BATCHES[network]}", "data.test=null", "train.log_every=1",
              "train.checkpoint_every=0", "device.threads=1", *overrides]
    return [word for value in values for word in ("--set", value)]


def instruction_set(options, host):
    isas = [isa for isa in getattr(options, "isas", "").split(",") if isa]
    return ["--isa", isas[host % len(isas)]] if isas else []


def link_rate(lab):
    """The rate of iperf3 over one shaped link in Mb/s: both directions at the same time, the slower one counts."""
    server = lab.start(0, ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    out = subprocess.run(lab.inside(1, ["iperf3", "-c", lab.address(0), "--bidir", "-t", 5, "-O", 1, "-J"]),
                         stdout=subprocess.PIPE, text=True, timeout=60).stdout
    server.wait(timeout=10)
    end = json.loads(out)["end"]
    return min(end["sum_received"]["bits_per_second"], end["sum_received_bidir_reverse"]["bits_per_second"]) / 1e6


def layer_times(lab, options, network, folder):
    """Runs --time on all hosts at the same time. Writes the slowest host's time of each layer to a file."""
    program = options.build / "bin" / "poseidon-train"
    outputs = lab.run_on_all(lambda host: [program, job(network), "--time", "--json", "--workers", lab.hosts,
                                           *instruction_set(options, host), *settings(options, network, [])])
    times = [json.loads(out) for out in outputs]
    slowest = times[0]
    for other in times[1:]:
        slowest["update_ms"] = max(slowest["update_ms"], other["update_ms"])
        for layer, theirs in zip(slowest["layers"], other["layers"]):
            for key in ("forward_ms", "backward_ms"):
                layer[key] = max(layer[key], theirs[key])
    path = pathlib.Path(folder) / f"{network}-times.json"
    path.write_text(json.dumps(slowest))
    return path


def bound_ms(options, network, overrides, times, rate):
    """Milliseconds of the best possible step for the plan of this variant."""
    words = [options.build / "bin" / "poseidon-train", job(network), "--plan", "--workers", 2, "--servers", 2, "--json",
             "--times", times, *settings(options, network, [*overrides, f"comm.link_mbps={rate:.1f}"])]
    done = subprocess.run(list(map(str, words)), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["predicted_step_ms"]


def poseidon_steps(lab, options, network, overrides, folder, steps, more=(), watch=None):
    """Runs a job and returns the times of all steps except the first. `watch(process, FILE)` can follow the metrics
    that the process writes to FILE. If it returns before the process has ended, the run is killed."""
    secret = pathlib.Path(folder) / "secret"
    secret.write_text("0123456789abcdef0123456789abcdef\n")
    binaries = options.build / "bin"
    output = pathlib.Path(folder) / f"run-{time.time_ns()}"
    head = f"{lab.address(lab.head)}:7000"
    train = lab.start(lab.head, [binaries / "poseidon-train", job(network), "--workers", lab.hosts,
                                 "--servers", lab.hosts, "--listen", head, "--external", "--secret-file", secret,
                                 "--max-steps", steps + 1, "--output", output, *more,
                                 *settings(options, network, overrides)],
                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    members = []
    for host in range(lab.hosts):
        joining = ["--coordinator", head, "--secret-file", secret, "--once", "--rank", host]
        worker = [binaries / "poseidon-worker", *joining, "--listen", f"{lab.address(host)}:7001", "--threads", 1,
                  *instruction_set(options, host)]
        at = f"{lab.address(host)}:7002"
        if options.servers_apart:
            server = [binaries / "poseidon-server", *joining, "--listen", at]
            members.append(lab.start(host, server, stderr=subprocess.DEVNULL))
        else:
            worker += ["--server-listen", at]
        members.append(lab.start(host, worker, stderr=subprocess.DEVNULL))
    if watch:
        watch(train, output / "metrics.jsonl")
        if train.poll() is None:
            lab.kill()
    _, err = train.communicate()
    if train.returncode not in (0, -signal.SIGKILL):
        sys.exit(f"netlab: poseidon-train exited with {train.returncode}: {err[-1500:]}")
    for member in members:
        member.wait()
    records = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    return [r["compute_ms"] + r["wait_ms"] for r in records if r["type"] == "train"][1:]


def ddp_steps(lab, options, network, steps, hook):
    outputs = lab.run_on_all(lambda host: ["env", f"GLOO_SOCKET_IFNAME=psdne{host}", options.python,
                                           HERE / "pytorch_ddp.py", network, "--batch", BATCHES[network],
                                           "--steps", steps, "--hook", hook, "--rank", host, "--world", lab.hosts,
                                           "--master", lab.address(0)])
    out = json.loads(outputs[0].splitlines()[-1])
    return out["step_ms"], out["version"]


def measure(lab, options, network, rate, folder):
    """Returns PyTorch's version, and for each round the peer's steps, and the steps and the bound of each variant."""
    rounds, version = [], ""
    for _ in range(options.rounds):
        times = layer_times(lab, options, network, folder)
        one = {}
        if options.python:
            hooks = {}
            for hook in options.hooks.split(","):
                hooks[hook], version = ddp_steps(lab, options, network, options.peer_steps, hook)
            one["hook"] = min(hooks, key=lambda hook: statistics.median(hooks[hook]))
            one["peer"] = hooks[one["hook"]]
        for name in options.variants.split(";"):
            steps = poseidon_steps(lab, options, network, VARIANTS[name], folder, options.steps)
            one[name] = {"steps": steps, "bound": bound_ms(options, network, VARIANTS[name], times, rate)}
        rounds.append(one)
    return rounds, version


def row_of(name, rounds):
    steps = [one[name]["steps"] for one in rounds]
    own, best = record.figure(steps), record.figure([[one[name]["bound"]] for one in rounds])
    each = [one[name]["bound"] / statistics.median(one[name]["steps"]) for one in rounds]
    row = {"variant": name, "step_ms": own, "best_ms": best,
           "part_of_best": record.ratio(best["median"] / own["median"], each)}
    if "peer" not in rounds[0]:
        return row
    peer = record.figure([one["peer"] for one in rounds])
    each = [statistics.median(one["peer"]) / statistics.median(one[name]["steps"]) for one in rounds]
    return {**row, "ddp_ms": peer, "hook": "/".join(sorted({one["hook"] for one in rounds})),
            "times_as_fast": record.ratio(peer["median"] / own["median"], each)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "release")
    parser.add_argument("--python", default="", help="Python interpreter with PyTorch; default: no comparison")
    parser.add_argument("--rates", default="200,1000")
    parser.add_argument("--congestion", default="", help="TCP congestion control on all hosts, for example reno")
    parser.add_argument("--networks", default="alexnet,vgg11,resnet50")
    parser.add_argument("--variants", default=";".join(VARIANTS), help="variants, separated by semicolons")
    parser.add_argument("--servers-apart", action="store_true", help="run each server in a separate process")
    parser.add_argument("--isas", default="", help="instruction sets of the hosts; default: the best one")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--peer-steps", type=int, default=3)
    parser.add_argument("--hooks", default="none",
                        help="DDP's communication hooks: none, fp16, powersgd; the fastest one of a round is the peer")
    parser.add_argument("--rounds", type=int, default=1)
    record.add_options(parser, "netlab")
    options = parser.parse_args()
    # sys.exit() also removes the namespaces if a signal ends the script.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("netlab: stopped by SIGTERM"))
    rows, version = [], ""
    print("\n".join(record.head(COLUMNS)), flush=True)
    for rate in map(int, options.rates.split(",")):
        with Lab(2, rate, options.congestion) as lab, tempfile.TemporaryDirectory() as folder:
            measured = link_rate(lab)
            for network in options.networks.split(","):
                rounds, version = measure(lab, options, network, measured, folder)
                for name in options.variants.split(";"):
                    rows.append({"network": network, "link": rate, "iperf3": round(measured), **row_of(name, rounds)})
                    print(record.line(COLUMNS, rows[-1]), flush=True)
    peer = f"PyTorch {version}, Gloo" if version else ""
    record.write(options, COLUMNS, rows, peer=peer, sudo=True)


if __name__ == "__main__":
    main()
