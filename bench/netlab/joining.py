#!/usr/bin/env python3
"""Measures how long a joiner stops the other workers, compared with the transfer time of its values on its link.

    sudo python3 bench/netlab/joining.py [--build build/release] [--networks alexnet,vgg19] [--rate 1000]
         [--hosts 3] [--record bench/results]

Hosts are network namespaces of this machine (lab.py), each with a link of the given rate in Mb/s, shaped both ways. A
job with parameter servers runs on all hosts except the last one. After three steps, a worker on the last host joins.
Layers and updates only sleep (device `replay`). Parameters and optimizer state have their real size and cross the
links. The pause is `lost_s` of the joiner's first view: from the end of the previous view to the first step of the new
one. "transfer at link rate" is the time of parameters and momentum on the joiner's link, at the rate that iperf3
reaches. "total join" begins at the start of the joiner's process.
"""
import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from lab import Lab  # noqa: E402
import netlab  # noqa: E402
import record  # noqa: E402
import replay  # noqa: E402

BEFORE, BEHIND = 3, 3  # steps without and with the joiner
COLUMNS = [record.column("network", "network"), record.column("link", "link Mb/s", 0),
           record.column("iperf3", "iperf3 Mb/s", 0), record.column("megabytes", "state, MB", 0),
           record.column("step_s", "step before join, s", 2), record.column("pause_s", "pause, s", 2, bold=True),
           record.column("link_s", "transfer at link rate, s", 2), record.column("ratio", "pause / transfer", 2),
           record.column("join_s", "total join, s", 2)]


def steps_of(metrics):
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    return [line for line in lines if line["type"] == "train"]


def wait_for(condition, process):
    while not condition():
        if process.poll() is not None:
            sys.exit(f"joining: poseidon-train exited with {process.returncode}")
        time.sleep(0.05)


class GrowingJob:
    """A job on all hosts of a lab except the last one, which joins later."""

    def __init__(self, lab, options, network, folder):
        self.lab, self.options, self.network = lab, options, network
        self.output = folder / f"run-{network}"
        self.secret = folder / "secret"
        self.secret.write_text("0123456789abcdef0123456789abcdef\n")
        self.head = f"{lab.address(lab.head)}:7000"
        self.errors = (folder / f"{network}.log").open("w+")
        times = replay.layer_times(options, network, folder)
        self.settings = netlab.settings(options, network, [
            "comm.scheme=ps", "device.type=replay", f"device.times={times}", f"cluster.max_workers={lab.hosts}",
            f"cluster.logical_shards={lab.hosts}", f"data.global_batch={replay.BATCH * lab.hosts}",
            "data.batch_per_worker=null"])

    def start(self):
        binaries, hosts = self.options.build / "bin", self.lab.hosts - 1
        train = self.lab.start(self.lab.head, [
            binaries / "poseidon-train", netlab.job(self.network), "--workers", hosts, "--servers", hosts, "--listen",
            self.head, "--external", "--secret-file", self.secret, "--output", self.output, *self.settings],
            stdout=subprocess.DEVNULL, stderr=self.errors)
        for host in range(hosts):
            self.worker(host)
        return train

    def worker(self, host):
        address = self.lab.address(host)
        self.lab.start(host, [self.options.build / "bin" / "poseidon-worker", "--coordinator", self.head,
                              "--secret-file", self.secret, "--once", "--listen", f"{address}:7001", "--threads", 1,
                              "--server-listen", f"{address}:7002"], stderr=subprocess.DEVNULL)

    def measure(self):
        """Returns the steps before the join, and the seconds from the joiner's start to the first step with it."""
        metrics = self.output / "metrics.jsonl"
        train = self.start()
        wait_for(lambda: len(steps_of(metrics)) >= BEFORE, train)
        begun = time.monotonic()
        self.worker(self.lab.hosts - 1)
        wait_for(lambda: " continue with step " in pathlib.Path(self.errors.name).read_text(), train)
        took = time.monotonic() - begun
        before = len(steps_of(metrics))
        wait_for(lambda: len(steps_of(metrics)) >= before + BEHIND, train)
        train.send_signal(signal.SIGTERM)  # a process that a shell script runs in the background ignores SIGINT
        train.wait()
        return steps_of(metrics)[1:before], took

    def summary(self):
        return json.loads((self.output / "summary.json").read_text())


def megabytes(output):
    """The MB of all parameters and their momentum, according to the run's plan."""
    layers = json.loads((output / "plan.json").read_text())["layers"]
    return 2 * 4 * sum(tensor["elements"] for layer in layers for tensor in layer["tensors"]) / 1e6


def row_of(job, rate, reached):
    steps, took = job.measure()
    summary = job.summary()
    pause = summary["views"][1]["lost_s"]
    values = megabytes(job.output)
    link = values * 8 / reached
    return {"network": job.network, "link": rate, "iperf3": round(reached), "megabytes": values,
            "step_s": sum(step["compute_ms"] + step["wait_ms"] for step in steps) / 1e3 / len(steps), "pause_s": pause,
            "link_s": link, "ratio": pause / link, "join_s": took}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "release")
    parser.add_argument("--networks", default="alexnet,vgg19")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--hosts", type=int, default=3)
    record.add_options(parser, "joining")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("joining: stopped by SIGTERM"))
    rows = []
    print("\n".join(record.head(COLUMNS)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks.split(","):
            netlab.BATCHES[network] = replay.BATCH
            with Lab(options.hosts, options.rate) as lab:
                reached = netlab.link_rate(lab)
                rows.append(row_of(GrowingJob(lab, options, network, pathlib.Path(folder)), options.rate, reached))
            print(record.line(COLUMNS, rows[-1]), flush=True)
    record.write(options, COLUMNS, rows, sudo=True)


if __name__ == "__main__":
    main()
