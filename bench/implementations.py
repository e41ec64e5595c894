#!/usr/bin/env python3
"""Prints which code computes each pass of the shipped networks and of random geometries.

It fails if oneDNN's reference code, which is slow, computes a pass.

    bench/implementations.py [--build build/release] [--isa x86-64-v3] [--seed 1] [--count 60] [--precision bf16]

Layers of a network with the same code share a row of the table. The table leaves out reorders between formats.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import geometries

ROOT = pathlib.Path(__file__).resolve().parent.parent
PASSES = {"forward": "forward", "backward_data": "input gradient", "backward_weights": "weight gradient"}


def is_reference(name):
    return name.startswith(("oneDNN ref", "oneDNN simple"))


def check(job, options):
    """The report of `poseidon-train --check` on a job."""
    words = [options.build / "bin" / "poseidon-train", job, "--check", "--json", "--set", "device.threads=1"]
    words += ["--set", f"device.precision={options.precision}"] if options.precision else []
    words += ["--isa", options.isa] if options.isa else []
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{job}: {done.stderr}")
    return json.loads(done.stdout)


def rows_of(report):
    """{(forward, input gradient, weight gradient): [layer, ...]}."""
    rows = {}
    for layer, passes in report["implementations"].items():
        if not layer.startswith("reorder "):
            rows.setdefault(tuple(passes.get(key, "") for key in PASSES), []).append(layer)
    return rows


def shipped(options):
    """One report for each network. Jobs of the same network differ in data and optimizer only."""
    report = {}
    for job in sorted((ROOT / "configs").glob("*.json")):
        network = json.loads(job.read_text())["network"]
        if network not in report:
            report[network] = check(job, options)
    return report.values()


def drawn(options):
    """The reports on random convolutions and poolings."""
    for seed in range(options.seed, options.seed + options.count):
        geometry = geometries.draw(seed, "pooling" if seed % 4 == 0 else "convolution")
        network, job = geometries.job_of(geometry, SimpleNamespace(threads=1, bf16=False))
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "network.json").write_text(json.dumps(network))
            config = pathlib.Path(folder) / "job.json"
            config.write_text(json.dumps(job))
            yield geometries.describe(geometry), check(config, options)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--isa", help="instruction-set level, as for poseidon-train")
    parser.add_argument("--precision", help="device.precision of all jobs")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first random geometry")
    parser.add_argument("--count", type=int, default=60, help="number of random geometries")
    options = parser.parse_args()
    slow = []
    print(f"| network | {' | '.join(PASSES.values())} | layers |\n|---|---|---|---|---|")
    for report in shipped(options):
        for names, layers in rows_of(report).items():
            shown = ", ".join(layers[:4]) + (f" and {len(layers) - 4} more" if len(layers) > 4 else "")
            print(f"| {report['name']} | {' | '.join(names)} | {shown} |")
            slow += [f"{report['name']}: {layers[0]}: {name}" for name in names if is_reference(name)]
    seen = {}
    for geometry, report in drawn(options):
        passes = report["implementations"]["layer"].values()
        slow += [f"{geometry}: {name}" for name in passes if is_reference(name)]
        for name in passes:
            seen[name] = seen.get(name, 0) + 1
    print(f"\n{options.count} random geometries from seed {options.seed}, passes by implementation:")
    for name, passes in sorted(seen.items(), key=lambda each: -each[1]):
        print(f"  {passes:4} {name}")
    sys.exit("oneDNN's reference code computes these passes:\n" + "\n".join(slow) if slow else 0)


if __name__ == "__main__":
    main()
