#!/usr/bin/env python3
"""Runs bench/gpu/first_light without a GPU, with the real programs. Three calls merge their results.

    first_light_dry_run.py --bin build/release/bin
    first_light_dry_run.py --bin build/release/bin --emulated build/release/emulated/lib
                                           one call, with the library of the emulated GPU
    first_light_dry_run.py --archive build/release/poseidon-0.1.0-linux-x86_64.tar.xz

Exit code 77: the archive has no GPU library.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
# An archive has no layer tests for a CPU.
MAY_BE_SKIPPED = {"parity", "sanitizer"}
# For each call: the argument of --only, and the stages that run. A stage that passed does not run again.
CALLS = (("smoke,parity,graphs", {"properties", "smoke", "parity", "graphs"}),
         ("smoke,resnet50,steps,hashes,together", {"properties", "resnet50", "steps", "hashes", "together"}),
         ("", {"properties", "ceilings", "layers", "peers", "trace", "accuracy", "sanitizer"}))
STAGES = set().union(*(stages for _, stages in CALLS))


def run(script, *words):
    """The exit code of first_light, and its output."""
    ended = subprocess.run([script, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                           env={**os.environ, "POSEIDON_DATA": ""})
    return ended.returncode, ended.stdout


def expect(got, expected, said):
    if got != expected:
        sys.exit(f"expected {expected}, got {got}:\n{said}")


def three_calls(script, words, may_be_skipped):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        for only, expected in CALLS:
            code, said = run(script, *words, "--device", "cpu", "--dry-run", "--output", out, "--only", only)
            ran = {line.split()[0].rstrip(":") for line in said.splitlines()}
            expect((code, ran - may_be_skipped), (0, expected - may_be_skipped), said)
        records = {name: record for file in out.glob("*.json")
                   for name, record in json.loads(file.read_text(encoding="utf-8")).items()}
        statuses = {name: record["status"] for name, record in records.items()}
        expect({name: status for name, status in statuses.items() if name not in may_be_skipped},
               {name: "passed" for name in STAGES - may_be_skipped}, json.dumps(records, indent=1))
        expect(statuses.keys(), STAGES, statuses)
        expect(len(list(out.iterdir())), 7, sorted(out.iterdir()))
        return statuses


def no_gpu(script, words):
    """Without --device cpu, the first stage ends the script if this machine has no GPU."""
    with tempfile.TemporaryDirectory() as folder:
        code, said = run(script, *words, "--output", pathlib.Path(folder) / "out", "--only", "smoke")
        if "properties ... passed" not in said:
            expect((code, said.splitlines()[-1].startswith("first_light: stopped: no GPU: ")), (2, True), said)


def emulated_gpu(script, programs, library):
    """Runs the stages on the emulated GPU, which refuses some graphs."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "bin").mkdir()
        (folder / "lib").symlink_to(library.resolve())
        for file in programs.iterdir():
            if file.name.startswith(("poseidon-", "bench_", "test_layers_gpu")):
                shutil.copy(file, folder / "bin")
        code, said = run(script, "--bin", folder / "bin", "--dry-run", "--output", folder / "out")
        failed = {line.split()[0] for line in said.splitlines() if " ... failed" in line}
        passed = {line.split()[0] for line in said.splitlines() if " ... passed" in line}
        expect((code, failed, passed | failed | MAY_BE_SKIPPED), (1, {"graphs"}, STAGES), said)
        expect("refused" in said, True, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path)
    parser.add_argument("--archive", type=pathlib.Path)
    parser.add_argument("--emulated", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        script, words, may_be_skipped = ROOT / "bench" / "gpu" / "first_light", ["--bin", options.bin], set()
        if options.archive:
            with tarfile.open(options.archive) as archive:
                archive.extractall(folder)
            script = next(pathlib.Path(folder).iterdir()) / "share" / "bench" / "gpu" / "first_light"
            words, may_be_skipped = [], MAY_BE_SKIPPED
            if not script.exists():
                print("skipped: the archive has no GPU library")
                sys.exit(SKIPPED)
        if options.emulated:
            return emulated_gpu(script, options.bin, options.emulated)
        no_gpu(script, words)
        statuses = three_calls(script, words, may_be_skipped)
        print("passed: " + ", ".join(f"{name} {status}" for name, status in statuses.items()))
        return 0


if __name__ == "__main__":
    sys.exit(main())
