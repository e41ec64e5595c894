#!/usr/bin/env python3
"""Random jobs whose results two builds must agree on, bit for bit: for a change that alters names and texts only.

    python3 tests/soak/same_bits.py --binaries build/release/bin --beside OTHER/bin [--first 1] [--count 10]

A seed selects a job as in random_jobs.py. Both builds run it with one worker and with several. The first build also
continues a run that the other one stopped, so it reads the other's checkpoint. All must have equal weights_sha256 and
state_sha256.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import random_jobs


class NotFinite(Exception):
    """The loss of a job became infinite or NaN, so its runs end early."""


def run(binaries, folder, name, arguments):
    command = [binaries / "poseidon-train", *arguments, "--threads", 1]
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "not finite" in done.stderr:
        raise NotFinite
    if done.returncode != 0:
        sys.exit(f"{name}: exit {done.returncode}: {' '.join(map(str, command))}\n{done.stderr}")
    summary = json.loads((folder / name / "summary.json").read_text())
    return [summary[key] for key in random_jobs.DIGESTS]


def runs_of(script, options, folder):
    """(name, digests) of each run of a seed."""
    for build, binaries in (("old", options.beside), ("new", options.binaries)):
        for number, way in enumerate(script.ways[:2]):
            name = f"{build}-{number}"
            yield f"{build}, {way}", run(binaries, folder, name, ["job.json", *way.arguments(), "--output", name])
    stop, first, second = script.stopped
    run(options.beside, folder, "stopped", ["job.json", *first.arguments(), "--max-steps", stop, "--output", "stopped"])
    yield (f"new after step {stop} of old",
           run(options.binaries, folder, "stopped", ["--resume", "stopped", *second.arguments()]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--beside", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--count", type=int, default=10)
    options = parser.parse_args()
    options.binaries, options.beside = options.binaries.resolve(), options.beside.resolve()
    differing = 0
    for seed in range(options.first, options.first + options.count):
        script = random_jobs.Script(seed)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if script.scheme == "auto":  # its schemes depend on the number of workers, and so do the bits
                script.case.job["comm"]["scheme"] = "sfb"
            (folder / "network.json").write_text(json.dumps(script.case.network))
            (folder / "job.json").write_text(json.dumps(script.case.job))
            try:
                runs = dict(runs_of(script, options, folder))
            except NotFinite:
                print(f"seed {seed}: {script}: skipped, its loss is not finite", flush=True)
                continue
        expected = next(iter(runs.values()))
        wrong = [name for name, digests in runs.items() if digests != expected]
        differing += bool(wrong)
        print(f"seed {seed}: {script}: {expected[0][:12]} {expected[1][:12]}: "
              f"{'differ: ' + '; '.join(wrong) if wrong else f'{len(runs)} runs agree'}", flush=True)
    sys.exit(f"{differing} seeds differ" if differing else 0)


if __name__ == "__main__":
    main()
