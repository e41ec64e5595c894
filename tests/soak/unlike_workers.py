#!/usr/bin/env python3
"""Random jobs with factors among unlike workers: their replicas must stay equal.

    python3 tests/soak/unlike_workers.py --binaries build/release/bin [--first 1] [--count 40] [--steps 200]

A seed selects a network (tests/reference/random_networks.py), 2 or 3 workers, and for each worker the instruction set,
the limit of oneDNN and the number of threads. Linear layers and some convolutions use factors. The job compares digests
of the replicas every step, and all their tensors every 20 steps. Seeds do not count if their network has no layer with
factors, or if its loss does not stay finite.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "reference")]
from random_networks import make_case, use_factors_of_convolutions  # noqa: E402

SECRET = "s" * 32
DIVERGED = "not finite"  # in the message of a run whose values are not finite
LIMITS_OF_ONEDNN = ["SSE41", "AVX2", "AVX512_CORE", ""]


def has_isa(binaries, isa):
    done = subprocess.run([binaries / "poseidon-train", "--devices", "--isa", isa], capture_output=True, check=False)
    return done.returncode == 0


class Workers:
    """The workers of one job, as daemons."""

    def __init__(self, binaries, isas, numbers, folder, port):
        self.processes, self.words = [], []
        # Two instruction sets, if the processor has them: replicas of one would be equal anyway.
        for rank, isa in enumerate((numbers.sample(isas, len(isas)) * 3)[:numbers.choice([2, 3])]):
            limit, threads = numbers.choice(LIMITS_OF_ONEDNN), numbers.choice([1, 2, 3])
            self.words.append(f"{isa} (oneDNN {limit or 'unlimited'}, {threads} threads)")
            command = [binaries / "poseidon-worker", "--coordinator", f"127.0.0.1:{port}", "--secret-file",
                       folder / "secret", "--rank", rank, "--isa", isa, "--threads", threads, "--once"]
            if rank == 0:
                command += ["--server-listen", "127.0.0.1:0"]
            with (folder / f"worker-{rank}.err").open("wb") as errors:
                self.processes.append(subprocess.Popen(
                    list(map(str, command)), cwd=folder, stderr=errors, stdout=subprocess.DEVNULL,
                    env={**os.environ, **({"ONEDNN_MAX_CPU_ISA": limit} if limit else {})}))

    def end(self):
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def job_of(case, steps):
    job = case.job
    train = job["data"]["train"]
    train.update(samples=24, shuffle=True)
    job["data"].update(global_batch=12)
    job["data"].pop("test", None)
    job["cluster"].update(logical_shards=6, digest_every=1)
    job["train"].update(steps=steps, checkpoint_every=20, keep_checkpoints=1, test_every=0)
    job["comm"] = {"scheme": "sfb"}
    return job


def play(seed, isas, options):
    """The complaint about a seed, "" if there is none, or None if the seed does not count."""
    numbers, case = random.Random(seed), make_case(seed)
    use_factors_of_convolutions(case.network, random.Random(f"factors {seed}"))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "network.json").write_text(json.dumps(case.network))
        (folder / "job.json").write_text(json.dumps(job_of(case, options.steps)))
        (folder / "secret").write_text(SECRET)
        (folder / "secret").chmod(0o600)
        port = 20000 + (seed * 7 + os.getpid()) % 10000
        workers = Workers(options.binaries, isas, numbers, folder, port)
        try:
            done = subprocess.run(
                list(map(str, [options.binaries / "poseidon-train", "job.json", "--output", "run", "--external",
                               "--listen", f"127.0.0.1:{port}", "--secret-file", "secret", "--workers",
                               len(workers.processes), "--servers", 1])),
                cwd=folder, capture_output=True, text=True, check=False, timeout=options.timeout)
        finally:
            workers.end()
        print(f"seed {seed}: {', '.join(workers.words)}", flush=True)
        if DIVERGED in done.stderr:
            return None
        if done.returncode != 0:
            return f"exit code {done.returncode}: {done.stderr[-600:]}"
        plan = json.loads((folder / "run" / "plan.json").read_text())
        if not any(layer["scheme"] == "sfb" for layer in plan["layers"]):
            return plan.get("reason") if "reason" in plan else None
        return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=40, help="number of networks with factors")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--timeout", type=float, default=600, help="of one job, in seconds")
    options = parser.parse_args()
    options.binaries = options.binaries.resolve()
    isas = [isa for isa in ("x86-64-v3", "x86-64-v4") if has_isa(options.binaries, isa)]
    if not isas:
        sys.exit("needs a processor with fused multiply-add, and a build for all processors")
    played, wrong, seed = 0, [], options.first
    while played < options.count:
        complaint = play(seed, isas, options)
        played += complaint is not None
        if complaint:
            wrong.append(seed)
            print(f"  WRONG: {complaint}", flush=True)
        seed += 1
    print(f"{played} networks with factors among workers of {' and '.join(isas)}, wrong: {wrong or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
