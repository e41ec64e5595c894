#!/usr/bin/env python3
"""Measures the throughput of a job whose members fail at a regular interval and are replaced. Compares it with the same
job without failures.

    python3 bench/churn.py [--workers 64] [--servers 16] [--minutes 10] [--every 30] [--rounds 1] [--device replay]
         [--batch 8] [--seed 1] [--build build/release] [--record bench/results]

The job trains cifar10_quick with parameter servers, on the loopback of this machine. Each worker and each server is a
separate daemon. With the device `replay`, layers and updates sleep for the measured time of one core, so that many
workers fit a few cores. Messages and sums have the size of a real job. In each round the job first runs undisturbed for
--minutes. Then it runs for the same time while a random member is killed (SIGKILL) every --every seconds and a new
daemon starts at once. Each process needs 40 MB of memory. The exit code is 1 if the job stops, or if not all killed
members are detected as failed and replaced.
"""
import argparse
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "netlab")]
import netlab  # noqa: E402
import record  # noqa: E402
import replay  # noqa: E402

NETWORK = "cifar10_quick"
BEGINS_S = 300  # limit for all daemons to start and connect
WARM_UP = 3  # steps that are not measured
SETTLES_S = 60  # limit for the replacement of the last killed members
COLUMNS = [record.column("run", "run"), record.column("minutes", "minutes", 1), record.column("steps", "steps", 0),
           record.column("images", "images/s", 0, spread=True),
           record.column("part", "ratio to undisturbed", 2, bold=True, spread=True),
           record.column("killed", "killed", 0), record.column("losses", "failed", 0),
           record.column("joins", "joined", 0), record.column("replayed", "steps repeated", 0),
           record.column("pause", "longest pause, s", 2), record.column("pauses", "all pauses, s", 1)]


class Crowd:
    """The daemons of a job and its coordinator. Leaving the context kills all of them."""

    def __init__(self, options, folder, name):
        self.options, self.folder, self.output = options, folder / name, folder / name / "run"
        self.folder.mkdir()
        self.members, self.killed = [], []
        self.secret = self.folder / "secret"
        self.secret.write_text("0123456789abcdef0123456789abcdef\n")
        self.secret.chmod(0o600)
        self.said = self.folder / "train.log"

    def __enter__(self):
        self.train = None
        return self

    def __exit__(self, *_):
        running = [process for _, process in self.members] + ([self.train] if self.train else [])
        for process in running:
            process.kill()
        for process in running:
            process.wait()

    def start(self, times):
        values = ["comm.scheme=ps", f"cluster.logical_shards={self.options.workers}",
                  f"cluster.max_workers={self.options.workers}", "train.steps=100000000",
                  f"device.type={self.options.device}"]
        values += [f"device.times={times}"] if self.options.device == "replay" else []
        address = f"127.0.0.1:{self.options.port}"
        words = [self.options.build / "bin" / "poseidon-train", netlab.job(NETWORK), "--workers", self.options.workers,
                 "--servers", self.options.servers, "--listen", address, "--external", "--secret-file", self.secret,
                 "--output", self.output, *netlab.settings(self.options, NETWORK, values)]
        with self.said.open("w", encoding="utf-8") as log:
            self.train = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=log)
        for role, count in (("worker", self.options.workers), ("server", self.options.servers)):
            for _ in range(count):
                self.start_member(role)

    def start_member(self, role):
        threads = ["--threads", 1] if role == "worker" else []
        words = [self.options.build / "bin" / f"poseidon-{role}", "--coordinator", f"127.0.0.1:{self.options.port}",
                 "--listen", "127.0.0.1:0", "--secret-file", self.secret, *threads]
        self.members.append((role, subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL,
                                                    stderr=subprocess.DEVNULL)))

    def replace(self, index):
        role, process = self.members.pop(index)
        process.kill()
        process.wait()
        self.killed.append(role)
        self.start_member(role)

    def steps(self):
        metrics = self.output / "metrics.jsonl"
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def wait(self, seconds, condition, what):
        """Waits for `condition`. Exits with the error `what` if the job ends or the time is over."""
        end = time.monotonic() + seconds
        while not condition():
            if self.train.poll() is not None or time.monotonic() > end:
                sys.exit(f"churn: {what}: {self.said.read_text(encoding='utf-8')[-3000:]}")
            time.sleep(0.05)

    def count(self, text):
        return self.said.read_text(encoding="utf-8").count(text)

    def summary(self):
        self.train.send_signal(signal.SIGTERM)  # a process that a shell script runs in the background ignores SIGINT
        if self.train.wait() != 0:
            sys.exit(f"churn: poseidon-train exited with {self.train.returncode}")
        return json.loads((self.output / "summary.json").read_text(encoding="utf-8"))


def follow(crowd, options, numbers):
    """Returns the measured steps and seconds. With `numbers`, a random generator, kills members meanwhile."""
    crowd.wait(BEGINS_S, lambda: crowd.steps() >= WARM_UP, f"the job ended, or did not start within {BEGINS_S} s")
    first, begun = crowd.steps(), time.monotonic()
    end, due = begun + 60 * options.minutes, begun + options.every
    while time.monotonic() < end:
        if numbers and time.monotonic() >= due:
            crowd.replace(numbers.randrange(len(crowd.members)))
            due += options.every
        if crowd.train.poll() is not None:
            sys.exit(f"churn: the job ended early: {crowd.said.read_text(encoding='utf-8')[-3000:]}")
        time.sleep(0.05)
    return crowd.steps() - first, time.monotonic() - begun


def measure(options, folder, times, name, numbers=None):
    with Crowd(options, folder, name) as crowd:
        crowd.start(times)
        steps, seconds = follow(crowd, options, numbers)
        crowd.wait(SETTLES_S, lambda: crowd.count(" has joined\n") >= len(crowd.killed),
                   f"the job ended, or not all killed members were replaced within {SETTLES_S} s")
        summary = crowd.summary()
    return {"minutes": seconds / 60, "steps": steps, "images": steps * options.batch * options.workers / seconds,
            "killed": len(crowd.killed), "losses": len(summary["losses"]), "joins": len(summary["joins"]),
            "replayed": summary["replayed_steps"], "pauses": summary["lost_s"],
            "pause": max(view.get("lost_s", 0) for view in summary["views"])}


def row_of(name, runs, undisturbed):
    """The row of the runs of all rounds, compared with the undisturbed runs."""
    row = {"run": name, **{key: sum(run[key] for run in runs) for key in runs[0]}}
    parts = [run["images"] / beside["images"] for run, beside in zip(runs, undisturbed)]
    row |= {"images": record.figure([[run["images"]] for run in runs]),
            "part": record.ratio(statistics.median(parts), parts), "pause": max(run["pause"] for run in runs)}
    return {key: record.rounded(value) if isinstance(value, float) else value for key, value in row.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--servers", type=int, default=16)
    parser.add_argument("--minutes", type=float, default=10, help="minutes of each run")
    parser.add_argument("--rounds", type=int, default=1, help="rounds; each has an undisturbed and a disturbed run")
    parser.add_argument("--every", type=float, default=30, help="seconds between two kills")
    parser.add_argument("--device", choices=("replay", "cpu"), default="replay")
    parser.add_argument("--batch", type=int, default=8, help="samples per worker")
    parser.add_argument("--seed", type=int, default=1, help="seed of the choice of killed members")
    parser.add_argument("--port", type=int, default=7300, help="port of the coordinator, on loopback")
    record.add_options(parser, "churn")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("churn: stopped by SIGTERM"))
    netlab.BATCHES[NETWORK] = options.batch
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        times = replay.layer_times(options, NETWORK, folder) if options.device == "replay" else None
        numbers, undisturbed, disturbed = random.Random(options.seed), [], []
        for index in range(options.rounds):
            undisturbed.append(measure(options, folder, times, f"undisturbed-{index}"))
            disturbed.append(measure(options, folder, times, f"disturbed-{index}", numbers))
    rows = [row_of("undisturbed", undisturbed, undisturbed),
            row_of(f"one killed every {options.every:g} s", disturbed, undisturbed)]
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    if rows[1]["losses"] != rows[1]["killed"] or rows[1]["joins"] < rows[1]["killed"]:
        sys.exit(f"churn: expected {rows[1]['killed']} failed members and at least as many joiners, "
                 f"got {rows[1]['losses']} and {rows[1]['joins']}")
    record.write(options, COLUMNS, rows)


if __name__ == "__main__":
    main()
