#!/usr/bin/env python3
"""Compares a job whose members fail at a regular interval with the same job undisturbed, in processes of this machine.

    POSEIDON_DATA=~/data python3 bench/recovery.py configs/cifar10_quick-cifar10.json [OPTION OF POSEIDON-TRAIN]...
         [--workers 4] [--servers 4] [--every 200] [--losses 6] [--build build/release] [--record bench/results]

The script kills (SIGKILL) workers and servers alternately, as long as two of each are left. The remaining members
continue. The exit code is 1 if the weights differ from those of the undisturbed run in any bit.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import record

HERE = pathlib.Path(__file__).resolve().parent
COLUMNS = [record.column("job", "job"), record.column("seconds", "total time, s", 1),
           record.column("losses", "failed members"), record.column("replayed", "steps repeated"),
           record.column("pause", "longest pause, s", 3), record.column("accuracy", "test accuracy, %", 2),
           record.column("bits", "weights (SHA-256)")]
STEP = re.compile(r"^step (\d+)/")


def members(parent):
    """The process ids of a run's members: {("worker", 0): PID}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_text().split("\0")
            stat = (entry / "stat").read_text()
        except OSError:
            continue
        if "--rank" in words and int(stat[stat.rindex(")") + 2:].split()[1]) == parent:
            role = "worker" if words[0].endswith("poseidon-worker") else "server"
            found[role, int(words[words.index("--rank") + 1])] = int(entry.name)
    return found


def targets(options):
    """The members to kill: workers and servers alternately, lowest rank first. Worker 0 sends the checkpoints."""
    both = [[("worker", rank) for rank in range(options.workers - 2)],
            [("server", rank) for rank in range(options.servers - 2)]]
    turns = [each for pair in zip(*both) for each in pair]
    return (turns + [each for one in both for each in one if each not in turns])[:options.losses]


def run(options, more, folder, targets):
    """Runs the job and kills the members in `targets` one by one. Returns the summary of the run."""
    command = [str(options.build / "bin" / "poseidon-train"), options.job, "--workers", str(options.workers), "--servers",
               str(options.servers), "--set", f"cluster.logical_shards={2 * options.workers}", "--set",
               f"train.log_every={min(10, options.every)}", *more, "--output", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    processes, said, due = {}, [], options.every
    left = list(targets)
    for line in process.stderr:
        said.append(line)
        step = STEP.match(line)
        if not step:
            continue
        processes = processes or members(process.pid)
        if left and int(step[1]) >= due:
            due += options.every
            os.kill(processes[left.pop(0)], signal.SIGKILL)
    if process.wait() != 0:
        sys.exit("".join(said))
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def row_of(name, summary):
    top1 = summary["test_top1"]
    return {"job": name, "seconds": summary["wall_seconds"], "losses": str(len(summary["losses"])),
            "replayed": str(summary["replayed_steps"]),
            "pause": max(view.get("lost_s", 0) for view in summary["views"]),
            "accuracy": None if top1 is None else 100 * top1, "bits": summary["weights_sha256"][:12]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--servers", type=int, default=4)
    parser.add_argument("--every", type=int, default=200, help="steps between two kills")
    parser.add_argument("--losses", type=int, default=6)
    record.add_options(parser, "recovery")
    options, more = parser.parse_known_args()
    name = pathlib.Path(options.job).stem
    with tempfile.TemporaryDirectory() as folder:
        undisturbed = run(options, more, pathlib.Path(folder) / "undisturbed", [])
        disturbed = run(options, more, pathlib.Path(folder) / "disturbed", targets(options))
    rows = [row_of(f"{name}, undisturbed", undisturbed), row_of(f"{name}, with failures", disturbed)]
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    if undisturbed["weights_sha256"] != disturbed["weights_sha256"]:
        sys.exit("recovery: the weights differ from those of the undisturbed run")
    record.write(options, COLUMNS, rows)


if __name__ == "__main__":
    main()
