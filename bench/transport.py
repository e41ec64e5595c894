#!/usr/bin/env python3
"""Bytes per second between a worker and a shard on loopback, beside iperf3, in the same run.

    python3 bench/transport.py [--program build/release/bin/bench_transport] [--rounds 5] [--seconds 3]

The worker moves chunks of 2 MiB in slices of 256 KiB to a shard in a second process, which adds to them and sends the sums
back; the peer is `iperf3 --bidir -l 1M` (the most it takes). Of both pairs each process has a core of its own, or the scheduler
puts both on one in some rounds. Rounds are interleaved. Rates count both directions; the table shows medians, and
processor seconds for each GB that a process has sent plus received.
"""
import argparse
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

CORES = sorted(os.sched_getaffinity(0))
HERE = pathlib.Path(__file__).resolve().parent


def numbers(line):
    return {name: float(value) for name, value in re.findall(r"(\w+)=([0-9.e+-]+)", line)}


def on_core(core, *command):
    return ["taskset", "-c", str(core), *map(str, command)]


def our_round(program, seconds):
    with subprocess.Popen(on_core(CORES[-1], program, "serve"), stdout=subprocess.PIPE, text=True) as shard:
        address = shard.stdout.readline().strip()
        work = subprocess.run(on_core(CORES[0], program, "work", address, seconds), check=True, capture_output=True,
                              text=True, timeout=seconds + 20)
        worker, server = numbers(work.stdout), numbers(shard.stdout.read())
    gigabytes = worker["bytes"] / 1e9
    return {"rate": gigabytes / worker["seconds"], "worker": worker["cpu"] / gigabytes,
            "shard": server["cpu"] / gigabytes}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def peer_round(seconds):
    port = str(free_port())
    with subprocess.Popen(on_core(CORES[-1], "iperf3", "-s", "-1", "-p", port, "-B", "127.0.0.1"), stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as server:
        time.sleep(0.3)
        try:
            run = subprocess.run(on_core(CORES[0], "iperf3", "-c", "127.0.0.1", "-p", port, "--bidir", "-l", "1M", "-t", seconds, "-J"),
                                 check=True, capture_output=True, text=True, timeout=seconds + 20)
        finally:
            server.terminate()
    end = json.loads(run.stdout)["end"]
    rate = (end["sum_received"]["bits_per_second"] + end["sum_received_bidir_reverse"]["bits_per_second"]) / 8e9
    used = end["cpu_utilization_percent"]
    return {"rate": rate, "worker": used["host_total"] / 100 / rate, "shard": used["remote_total"] / 100 / rate}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", default=HERE.parent / "build" / "release" / "bin" / "bench_transport")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--seconds", type=int, default=3)
    given = flags.parse_args()
    if not shutil.which("iperf3"):
        sys.exit("iperf3 is not installed; on Debian and Ubuntu: apt-get install iperf3")
    ours, peers = [], []
    for _ in range(given.rounds):
        peers.append(peer_round(given.seconds))
        ours.append(our_round(given.program, given.seconds))
    middle = {name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
              for name, rounds in (("iperf3 --bidir -l 1M", peers), ("Poseidon", ours))}
    print(f"{'':24}{'GB/s, both ways':>16}{'worker, CPU s/GB':>18}{'shard, CPU s/GB':>18}")
    for name, values in middle.items():
        print(f"{name:24}{values['rate']:16.2f}{values['worker']:18.3f}{values['shard']:18.3f}")
    print(f"ratio {middle['Poseidon']['rate'] / middle['iperf3 --bidir -l 1M']['rate']:.2f}, medians of "
          f"{given.rounds} rounds of {given.seconds} s")


if __name__ == "__main__":
    main()
