#!/usr/bin/env python3
"""Measures the transport over a long link that loses packets at random, for each TCP congestion control.

    sudo python3 bench/netlab/long_link.py [--build build/release] [--round-trip 50] [--loss 0.5] [--rate 100]
         [--controls cubic,reno,bbr] [--rounds 3] [--seconds 20] [--record bench/results]

The link joins two hosts (network namespaces). bench_long_link carries its packets between two TUN devices, because many
kernels lack netem. Both directions have the rate, half the round trip and the loss. The link's queue holds packets of
one round trip, but at least of 20 ms.

Poseidon is bench_transport with a secret and two workers, as in bench/transport.py. Its connections use "auto", so they
keep the congestion control of the host. The peer is `iperf3 --bidir -l 1M -P 2`, with two connections in each direction
too. Rates are those of one direction.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import lab  # noqa: E402
import record  # noqa: E402
import transport  # noqa: E402

lab.PREFIX = "psdl"  # avoids a conflict with a netlab that may be running

COLUMNS = [record.column("control", "congestion control"), record.column("ours", "Poseidon, Mb/s", 1, spread=True),
           record.column("ours_link", "% of the link's rate", 1, spread=True),
           record.column("peer", "iperf3, Mb/s", 1, spread=True),
           record.column("peer_link", "% of the link's rate", 1, spread=True)]
DEVICE = "long"


class LongLink:
    """A second link between hosts 0 and 1 of a lab. transport.py runs its programs at the two ends."""

    def __init__(self, hosts, program, round_trip_ms, loss_percent, rate_mbit):
        self.hosts = hosts
        self.shard_host = self.address(1)
        self.words = [program, f"{hosts.prefix}0", f"{hosts.prefix}1", round_trip_ms / 2, loss_percent, rate_mbit,
                      max(round_trip_ms, 20)]

    def address(self, host, version=4):
        return f"10.78.0.{host + 1}" if version == 4 else f"fd78::{host + 1}"

    def __enter__(self):
        self.process = subprocess.Popen([str(word) for word in self.words], stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline().strip() != "ready":
            sys.exit("long_link: bench_long_link did not start")
        for host in (0, 1):
            space = ["-n", f"{self.hosts.prefix}{host}"]
            lab.command("ip", *space, "addr", "add", f"{self.address(host)}/24", "dev", DEVICE)
            lab.command("ip", *space, "addr", "add", f"{self.address(host, 6)}/64", "dev", DEVICE, "nodad")
            lab.command("ip", *space, "link", "set", DEVICE, "up")
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.counts = self.process.communicate()[0]

    def at_worker(self, *words):
        return self.hosts.inside(0, words)

    def at_shard(self, *words):
        return self.hosts.inside(1, words)


def measure(given, control):
    """The rates of one round, in Mb/s of one direction."""
    secret = "a secret of the benchmark's"
    with lab.Lab(2, 0, control) as hosts, \
            LongLink(hosts, given.build / "bin" / "bench_long_link", given.round_trip, given.loss, given.rate) as link:
        ours = transport.our_round(link, given.build / "bin" / "bench_transport", given.seconds, secret)
        peer = transport.peer_round(link, given.seconds, "-P", "2")
    print(f"{control}: {ours['rate'] * 4e3:.1f} Mb/s, iperf3 {peer['rate'] * 4e3:.1f} Mb/s; packets "
          f"{'; '.join(link.counts.split(chr(10))[:2])}", file=sys.stderr)
    return {"ours": ours["rate"] * 4e3, "peer": peer["rate"] * 4e3}


def row_of(control, rounds, rate):
    def figure(key, times=1.0):
        return record.figure([[times * one[key]] for one in rounds])

    return {"control": control, "ours": figure("ours"), "ours_link": figure("ours", 100 / rate),
            "peer": figure("peer"), "peer_link": figure("peer", 100 / rate)}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build" / "release")
    flags.add_argument("--round-trip", type=float, default=50, help="ms")
    flags.add_argument("--loss", type=float, default=0.5, help="%% of the packets of each direction")
    flags.add_argument("--rate", type=float, default=100, help="Mb/s")
    flags.add_argument("--controls", default="cubic,reno,bbr", help="TCP congestion controls")
    flags.add_argument("--rounds", type=int, default=3)
    flags.add_argument("--seconds", type=int, default=20)
    record.add_options(flags, "long-link")
    given = flags.parse_args()
    lab.need_root()
    if not shutil.which("iperf3"):
        sys.exit("long_link: iperf3 is not installed; on Debian and Ubuntu: apt-get install iperf3")
    controls = given.controls.split(",")
    rounds = [{control: measure(given, control) for control in controls} for _ in range(given.rounds)]
    rows = [row_of(control, [one[control] for one in rounds], given.rate) for control in controls]
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    note = f"round trip {given.round_trip:g} ms, loss {given.loss:g} %, {given.rate:g} Mb/s"
    print(f"\nMedians of {given.rounds} rounds of {given.seconds} s; {note}")
    record.write(given, COLUMNS, rows, peer=transport.peer_version(), sudo=True, note=note)


if __name__ == "__main__":
    main()
