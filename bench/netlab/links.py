#!/usr/bin/env python3
"""Measures the traffic on the hosts' links during a step.

    sudo python3 bench/netlab/links.py [--build build/release] [--network vgg19] [--hosts 4] [--rate 200] [--steps 4]
         [--variant auto] [--congestion reno] [--parts 20]

Hosts are as in replay.py. The last step is divided into parts of equal length. For each part, the table shows the
hosts' send and receive rates in Mb/s: the mean, the least and the greatest. If all rates in a part are below the link's
rate, the hosts wait for their own computation or for a slower host. If some rates are far below others, some receivers
are busy with other senders.
"""
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import lab as netlab_hosts  # noqa: E402
import netlab  # noqa: E402
import record  # noqa: E402
import replay  # noqa: E402

COLUMNS = [record.column("from_ms", "from ms", 0), record.column("sent", "sent Mb/s", 0, spread=True),
           record.column("received", "received Mb/s", 0, spread=True)]
PERIOD_S = 0.02


class LinkSamples:
    """Samples of the bytes that have crossed each host's link, with their times."""

    def __init__(self, hosts):
        self.names = [f"{netlab_hosts.PREFIX}b{host}" for host in range(hosts)]
        self.rows = []  # time, then the bytes that each host has sent, then those that each has received

    def take(self):
        # These are the counters of the switch, which receives the bytes that a host sends.
        words = ["ip", "netns", "exec", f"{netlab_hosts.PREFIX}{netlab_hosts.SWITCH}", "cat", "/proc/net/dev"]
        text = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
        counts = dict(line.strip().split(":", 1) for line in text.splitlines()[2:])
        bytes_of = [counts[name].split() for name in self.names]
        self.rows.append([time.time(), *(int(one[0]) for one in bytes_of), *(int(one[8]) for one in bytes_of)])

    def at(self, moment):
        """All counts at a time, interpolated between two samples."""
        after = next((i for i, row in enumerate(self.rows) if row[0] >= moment), len(self.rows) - 1)
        one, other = self.rows[max(after - 1, 0)], self.rows[after]
        share = (moment - one[0]) / (other[0] - one[0]) if other[0] > one[0] else 0
        return [a + share * (b - a) for a, b in zip(one[1:], other[1:])]


class Sampling:
    """Follows a run like StepEnds, and samples the links meanwhile."""

    def __init__(self, ends, samples):
        self.ends, self.samples = ends, samples

    def follow(self, process, metrics):
        over = threading.Event()
        sampler = threading.Thread(target=self.sample, args=(over,))
        sampler.start()
        self.ends.follow(process, metrics)
        over.set()
        sampler.join()

    def sample(self, over):
        while not over.wait(PERIOD_S):
            self.samples.take()


def rates(samples, begin, end, parts):
    """Yields a row for each part of the time."""
    width, hosts = (end - begin) / parts, len(samples.names)
    counts = [samples.at(begin + i * width) for i in range(parts + 1)]
    for i, (one, other) in enumerate(zip(counts, counts[1:])):
        mbps = [[(b - a) * 8e-6 / width] for a, b in zip(one, other)]
        yield {"from_ms": i * width * 1e3, "sent": record.figure(mbps[:hosts], statistics.fmean),
               "received": record.figure(mbps[hosts:], statistics.fmean)}


def main():
    parser = replay.one_lab_parser(__doc__)
    parser.add_argument("--parts", type=int, default=20)
    options = replay.options_of_one_lab(parser)
    with tempfile.TemporaryDirectory() as folder, \
            netlab_hosts.Lab(options.hosts, options.rate, options.congestion) as lab:
        times = replay.layer_times(options, options.network, folder)
        settings = [*netlab.VARIANTS[options.variant], "device.type=replay", f"device.times={times}"]
        samples = LinkSamples(options.hosts)
        ends = replay.StepEnds(options.steps + 1, time.time)
        steps = netlab.poseidon_steps(lab, options, options.network, settings, folder, options.steps,
                                      watch=Sampling(ends, samples).follow)
    rows = rates(samples, ends.seen[-2], ends.seen[-1], options.parts)
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    print(f"steps: {', '.join(f'{step:.0f}' for step in steps)} ms")


if __name__ == "__main__":
    main()
