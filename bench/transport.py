#!/usr/bin/env python3
"""Measures bytes per second between workers and a server shard, and compares them with iperf3 in the same run.

    python3 bench/transport.py [--program build/release/bin/bench_transport] [--rounds 5] [--seconds 3]
         [--beside PROGRAM] [--record bench/results]
    sudo python3 bench/transport.py --rate 200    over a link of 200 Mb/s, shaped both ways (network namespaces)

Two workers in one process send gradients in chunks of 2 MiB to a shard in a second process. The shard adds them and
sends the sums back. This is the code that trains, without the computation. It runs with a secret, so that frames have
authentication codes, and without one, with checksums.

The peer is `iperf3 --bidir -l 1M`, its largest length. On loopback, iperf3 also runs with `-C reno`. The system's
congestion control may pace packets, which is slow on a link without congestion. Poseidon does not use pacing there.

Each process is pinned to its own core, because otherwise the scheduler sometimes puts both on one core. Rounds are
interleaved. The ratio is the median of the rounds' ratios. The first second of each run does not count. Rates count
both directions. CPU is processor seconds for each GB that a process sends plus receives.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE / "netlab"))
import lab  # noqa: E402
import record  # noqa: E402

lab.PREFIX = "psdt"  # avoids a conflict with a netlab that may be running

CORES = sorted(os.sched_getaffinity(0))
COLUMNS = [record.column("what", "program"), record.column("rate", "GB/s, both ways", 3, spread=True),
           record.column("worker", "worker, CPU s/GB", 3), record.column("shard", "shard, CPU s/GB", 3),
           record.column("ratio", "Poseidon / program", 2, spread=True)]
LINK_COLUMNS = [*COLUMNS, record.column("link", "% of the link's rate", 1, spread=True)]


class Loopback:
    """Both processes run on this host, over loopback."""
    shard_host = "127.0.0.1"

    def at_worker(self, *words):
        return ["taskset", "-c", str(CORES[0]), *map(str, words)]

    def at_shard(self, *words):
        return ["taskset", "-c", str(CORES[-1]), *map(str, words)]


class ShapedLink:
    """Each process runs on a separate host of a lab."""

    def __init__(self, hosts):
        self.hosts = hosts
        self.shard_host = hosts.address(1)

    def at_worker(self, *words):
        return self.hosts.inside(0, words)

    def at_shard(self, *words):
        return self.hosts.inside(1, words)


def numbers(line):
    return {name: float(value) for name, value in re.findall(r"(\w+)=([0-9.e+-]+)", line)}


def our_round(place, program, seconds, *secret):
    with subprocess.Popen(place.at_shard(program, "serve", f"{place.shard_host}:0", *secret), stdout=subprocess.PIPE,
                          text=True) as shard:
        address = shard.stdout.readline().strip()
        work = subprocess.run(place.at_worker(program, "work", address, seconds, *secret), check=True,
                              stdout=subprocess.PIPE, text=True, timeout=seconds + 60)
        worker, server = numbers(work.stdout), numbers(shard.stdout.read())
    gigabytes = worker["bytes"] / 1e9
    return {"rate": gigabytes / worker["seconds"], "worker": worker["cpu"] / gigabytes,
            "shard": server["cpu"] / gigabytes}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def peer_round(place, seconds, *more):
    port = str(free_port())
    with subprocess.Popen(place.at_shard("iperf3", "-s", "-1", "-p", port, "-B", place.shard_host),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        time.sleep(0.3)
        try:
            run = subprocess.run(place.at_worker("iperf3", "-c", place.shard_host, "-p", port, "--bidir", "-l", "1M",
                                                 "-t", seconds, "-O", 1, "-J", *more),
                                 check=True, capture_output=True, text=True, timeout=seconds + 60)
        finally:
            server.terminate()
    end = json.loads(run.stdout)["end"]
    rate = (end["sum_received"]["bits_per_second"] + end["sum_received_bidir_reverse"]["bits_per_second"]) / 8e9
    used = end["cpu_utilization_percent"]
    return {"rate": rate, "worker": used["host_total"] / 100 / rate, "shard": used["remote_total"] / 100 / rate}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", default=HERE.parent / "build" / "release" / "bin" / "bench_transport")
    flags.add_argument("--beside", help="bench_transport of another build, to compare in the same rounds")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--seconds", type=int, default=3)
    flags.add_argument("--rate", type=int, default=0, help="rate of the shaped link in Mb/s; 0: loopback")
    flags.add_argument("--congestion", default="",
                       help="TCP congestion control on the shaped link; default: the system's")
    record.add_options(flags, "transport")
    given = flags.parse_args()
    if not shutil.which("iperf3"):
        sys.exit("transport: iperf3 is not installed; on Debian and Ubuntu: apt-get install iperf3")
    with contextlib.ExitStack() as stack:
        place = ShapedLink(stack.enter_context(lab.Lab(2, given.rate, given.congestion))) if given.rate else Loopback()
        measures = {"iperf3 --bidir -l 1M": lambda: peer_round(place, given.seconds)}
        if not given.rate:
            measures["iperf3 --bidir -l 1M -C reno"] = lambda: peer_round(place, given.seconds, "-C", "reno")
        secret = "a secret of the benchmark's"
        measures["Poseidon"] = lambda: our_round(place, given.program, given.seconds, secret)
        measures["Poseidon, no secret"] = lambda: our_round(place, given.program, given.seconds)
        if given.beside:
            measures["other build"] = lambda: our_round(place, given.beside, given.seconds, secret)
        rounds = [{name: measure() for name, measure in measures.items()} for _ in range(given.rounds)]
    show(rounds, given)


def row_of(name, rounds, link_rate):
    def figure(key, times=1.0):
        return record.figure([[times * one[name][key]] for one in rounds])

    ratios = [one["Poseidon"]["rate"] / one[name]["rate"] for one in rounds]
    row = {"what": name, "rate": figure("rate"), "worker": figure("worker"), "shard": figure("shard"),
           "ratio": record.ratio(statistics.median(ratios), ratios)}
    return {**row, "link": figure("rate", 100 * 8e3 / (2 * link_rate))} if link_rate else row


def show(rounds, given):
    columns = LINK_COLUMNS if given.rate else COLUMNS
    rows = [row_of(name, rounds, given.rate) for name in rounds[0]]
    print("\n".join([*record.head(columns), *(record.line(columns, row) for row in rows)]))
    note = f"headers not counted, on a link of {given.rate} Mb/s" if given.rate else ""
    print(f"\nMedians of {given.rounds} rounds of {given.seconds} s{note and ', ' + note}")
    record.write(given, columns, rows, peer=peer_version(), sudo=bool(given.rate), note=note)


def peer_version():
    done = subprocess.run(["iperf3", "--version"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()[:2])


if __name__ == "__main__":
    main()
