#!/usr/bin/env python3
"""Random jobs, each run in several ways that must have equal bits (docs/cluster.md, "When bits are equal").

    python3 tests/soak/random_jobs.py --binaries build/release/bin --first 1 --count 100 --state jobs.jsonl

The seed selects a job: a network of random layers (tests/reference/random_networks.py), scheme, staleness, EMA, mixup,
fp32 or bf16, wire format fp32 or int8, logical shards. The job runs with 1, 2, 3, 4 and, if it has 8 shards, 8 workers,
and 1 to 3 servers, each with one or two devices. Logical shards are assigned evenly or by speed. One run is stopped and
continues with another number of workers. In one run a worker or server is killed (SIGKILL). In another run the
coordinator is killed, and --resume continues the run. About half of the convolutions use factors.

All runs of a seed must have the weights_sha256 and state_sha256 of the first. Exceptions are jobs with staleness that
ended because the only server or worker failed. Jobs with staleness that continue from a checkpoint of the workers,
written without the coordinator, are exceptions too. A seed does not count if values of its first run are not finite.

The state file has a line for each seed. A new call of the command continues after the last one. The folders of seeds
whose runs differ are kept in --failures.
"""
import argparse
import collections
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "reference")]
from process_rounds import children_of, is_running, read, wait_until  # noqa: E402
from random_networks import make_case, use_factors_of_convolutions  # noqa: E402
from recovery_rounds import State, last_line  # noqa: E402

STEPS = 12
# Links are slowed down so that a step takes this long. Otherwise a run ends before its process can be killed.
STRUCK_STEPS_S = 0.15
LOSSES_OF_MIXTURES = {"softmax_loss", "accuracy"}
DIGESTS = ("weights_sha256", "state_sha256")


class Disagreement(Exception):
    pass


class Diverged(Exception):
    """A run has values that are not finite."""


class Lost(Exception):
    """A job ended because a member failed (exit code 3)."""


@dataclasses.dataclass
class Way:
    """How a run of a job computes. Bits must not depend on it."""
    workers: int
    servers: int
    devices: int
    balance: str

    def arguments(self):
        several = ["--servers", self.servers, "--set", f"cluster.balance={self.balance}"] if self.workers > 1 else []
        return ["--workers", self.workers, "--device", ",".join(["cpu"] * self.devices), *several]

    def __str__(self):
        if self.workers == 1:
            return f"1 worker of {self.devices} devices"
        return f"{self.workers} workers of {self.devices} devices, {self.servers} servers, {self.balance}"


class Script:
    """The job and the runs that a seed selects."""

    def __init__(self, seed):
        self.numbers = random.Random(seed)
        self.case = make_case(seed)
        use_factors_of_convolutions(self.case.network, random.Random(f"factors {seed}"))
        self.shards = self.numbers.choice([4, 4, 6, 8, 12])
        self.scheme = self.numbers.choice(["ps", "sfb", "auto"])
        self.complete_job()
        first = Way(1, 1, 1, "even")
        self.ways = [first] + [self.way(workers) for workers in (2, 3, 4, 8) if workers <= self.shards]
        self.stopped = [self.numbers.randrange(1, STEPS), self.way(), self.way()]
        self.disturbed = self.way(self.numbers.choice([2, 3, 4]))
        self.cut_short = [self.way(), self.way()]

    def way(self, workers=None):
        workers = workers or self.numbers.choice([1, 2, 3, 4])
        devices = self.numbers.choice([1, 2]) if workers * 2 <= self.shards else 1
        return Way(workers, self.numbers.choice([1, 2, 3]), devices, self.numbers.choice(["even", "speed"]))

    def complete_job(self):
        """Adds the parts of a job that random_networks.py does not generate."""
        job, choice = self.case.job, self.numbers.choice
        batch = self.shards * choice([1, 2, 3])
        train = job["data"]["train"]
        train.update(samples=self.numbers.randint(batch, 4 * batch), shuffle=choice([True, False]))
        job["data"].update(global_batch=batch, test={**train, "samples": 7, "seed": 1000, "shuffle": False})
        job["cluster"]["logical_shards"] = self.shards
        job["train"].update(steps=STEPS, checkpoint_every=3, keep_checkpoints=2, test_every=choice([0, 4]))
        job["device"]["precision"] = choice(["fp32", "fp32", "bf16"])
        staleness = choice([0, 0, 1, 2])
        job["comm"] = {"scheme": self.scheme, "staleness": staleness,
                       "overlap": "priority" if staleness else choice(["priority", "barrier", "none"])}
        losses = {layer["type"] for layer in self.case.layers if "loss" in layer["type"]}
        if losses <= LOSSES_OF_MIXTURES and choice([True, False]):
            mixes = [{"mixup": 0.4}] if train["extras"] else [{"mixup": 0.4}, {"cutmix": 1.0}]
            train["transform"] = {**train.get("transform", {}), "mix": choice(mixes)}
        job["comm"]["wire"] = choice(["fp32", "int8"])

    def __str__(self):
        comm, job = self.case.job["comm"], self.case.job
        extra = [key for key, has in (("averages", "average_decay" in job["optimizer"]),
                                      ("mixtures", "mix" in job["data"]["train"].get("transform", {}))) if has]
        return ", ".join([f"{self.shards} shards", comm["scheme"], comm["wire"], f"staleness {comm['staleness']}",
                          job["device"]["precision"], *extra])


class Jobs:
    """The runs of one seed."""

    def __init__(self, script, options, folder):
        self.script, self.options, self.folder = script, options, folder
        self.expected, self.counts = None, collections.Counter()
        (folder / "network.json").write_text(json.dumps(script.case.network, indent=1))
        (folder / "job.json").write_text(json.dumps(script.case.job, indent=1))

    def start(self, run, arguments):
        command = [self.options.binaries / "poseidon-train", *arguments, "--threads", 1]
        with (self.folder / f"{run}.err").open("ab") as errors:
            errors.write((" ".join(map(str, command)) + "\n").encode())
            errors.flush()
            return subprocess.Popen(list(map(str, command)), cwd=self.folder, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)

    def finish(self, process, run, may_lose=False):
        try:
            code = process.wait(self.options.timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Disagreement(f"{run}: hangs: {last_line(read(self.folder / (run + '.err')))}") from None
        if code == 3 and may_lose:
            raise Lost
        if code != 0:
            message = last_line(read(self.folder / (run + ".err")))
            if self.expected is None and "not finite" in message:
                raise Diverged
            raise Disagreement(f"{run}: exit code {code}: {message}")

    def first_arguments(self, run, way):
        plan = ["--set", f"comm.plan={self.plan}"] if self.plan else []
        return ["job.json", "--output", run, *way.arguments(), *plan]

    @property
    def plan(self):
        """With the scheme "auto" the schemes of a layer depend on the number of workers, so one plan is for all."""
        path = self.folder / "plan.json"
        return path if path.exists() else None

    def go(self):
        if self.script.scheme == "auto":
            self.finish(self.start("planned", ["job.json", "--output", "planned", "--max-steps", 1,
                                               *Way(2, 1, 1, "even").arguments()]), "planned")
            shutil.copy(self.folder / "planned" / "plan.json", self.folder / "plan.json")
        for way in self.script.ways:
            self.whole(f"workers-{way.workers}", way)
        self.stop_and_resume()
        self.inject_fault_into_member()
        self.inject_fault_into_coordinator()
        return self.counts

    def whole(self, run, way):
        self.finish(self.start(run, self.first_arguments(run, way)), run)
        self.compare(run, way)

    def compare(self, run, *ways):
        summary = json.loads(read(self.folder / run / "summary.json"))
        digests = {key: summary[key] for key in DIGESTS}
        self.counts["runs"] += 1
        if self.expected is None:
            self.expected = digests
        if digests != self.expected:
            raise Disagreement(f"{run} ({' then '.join(map(str, ways))}): {digests}, expected {self.expected}")

    def stop_and_resume(self):
        steps, first, second = self.script.stopped
        self.finish(self.start("stopped", [*self.first_arguments("stopped", first), "--max-steps", steps]), "stopped")
        self.finish(self.start("stopped", ["--resume", "stopped", *second.arguments()]), "stopped")
        self.compare("stopped", first, second)

    # ---- processes that are killed

    def start_slowly(self, run, way):
        """Starts a run whose steps take STRUCK_STEPS_S, and waits for a random step of its first half."""
        bytes_of_step = json.loads(read(self.folder / "workers-2" / "plan.json"))["bytes_per_node"]
        mbps = max(0.5, bytes_of_step * 8e-6 / STRUCK_STEPS_S)
        process = self.start(run, [*self.first_arguments(run, way), "--set", f"comm.bandwidth_limit_mbps={mbps:.3g}"])
        metrics, steps = self.folder / run / "metrics.jsonl", self.script.numbers.randrange(1, STEPS // 2)
        wait_until(self.options.timeout, lambda: process.poll() is not None or read(metrics).count('"train"') >= steps)
        return process

    def inject_fault_into_member(self):
        """The job continues without the member. If no member can replace it, the job ends with 3 and is resumed."""
        way = self.script.disturbed
        process = self.start_slowly("disturbed", way)
        members = children_of(process.pid)
        if members and process.poll() is None:
            name = self.script.numbers.choice(sorted(members))
            self.kill(members[name], name.split()[0])
        try:
            self.finish(process, "disturbed", may_lose=True)
        except Lost:
            self.counts["resumed after a loss"] += 1
            self.finish(self.start("disturbed", self.arguments_to_continue("disturbed", way)), "disturbed")
            # The checkpoint after a node failure has no sums in flight: docs/cluster.md does not promise equal bits
            # then.
            if self.script.case.job["comm"]["staleness"] > 0:
                return
        self.compare("disturbed", way)

    def inject_fault_into_coordinator(self):
        first, second = self.script.cut_short
        process = self.start_slowly("cut-short", first)
        members = children_of(process.pid)
        if process.poll() is None:
            self.kill(process.pid, "coordinator")
        process.wait()
        if not (self.folder / "cut-short" / "summary.json").exists():
            late = self.script.case.job["comm"]["staleness"] > 0
            # Workers write the last complete step after the coordinator fails: a checkpoint may still appear.
            if late or not self.states("cut-short"):
                wait_until(self.options.timeout, lambda: not any(is_running(pid) for pid in members.values()))
            states = self.states("cut-short")
            # A checkpoint that workers write carries no sums in flight, as after the failure of a member.
            promised = not states or not late or b'"sums_in_flight"' in states[-1].read_bytes()
            self.finish(self.start("cut-short", self.arguments_to_continue("cut-short", second)), "cut-short")
            if not promised:
                self.counts["resumed without sums"] += 1
                return
        self.compare("cut-short", first, second)

    def arguments_to_continue(self, run, way):
        """--resume, or the run from its first step where it has no checkpoint yet."""
        if self.states(run):
            return ["--resume", run, *way.arguments()]
        shutil.rmtree(self.folder / run)
        return self.first_arguments(run, way)

    def states(self, run):
        """The .state files of a run's checkpoints, the newest one last."""
        files = (self.folder / run / "checkpoints").glob("*.state")
        return sorted(files, key=lambda file: int(file.stem.removeprefix("step-")))

    def kill(self, pid, role):
        try:
            os.kill(pid, signal.SIGKILL)
            self.counts[f"{role} killed"] += 1
        except ProcessLookupError:
            pass  # the run ended first


def play(seed, options):
    """The entry of a seed in the state file."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"job-{seed}-", dir=options.folder))
    entry = {"seed": seed, "script": "", "counts": {}, "complaints": []}
    jobs = None
    try:
        script = Script(seed)
        entry["script"] = str(script)
        jobs = Jobs(script, options, folder)
        jobs.go()
    except Diverged:
        jobs.counts["not finite"] += 1
    except (Disagreement, OSError, ValueError, KeyError) as error:
        entry["complaints"].append(str(error) if isinstance(error, Disagreement) else repr(error))
        kept = options.failures / f"seed-{seed}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
    entry["counts"] = dict(jobs.counts) if jobs else {}
    shutil.rmtree(folder, ignore_errors=True)
    return entry


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="number of seeds")
    parser.add_argument("--state", type=pathlib.Path, help="the file of seeds that are done")
    parser.add_argument("--timeout", type=float, default=300, help="of one run, in seconds")
    parser.add_argument("--folder", type=pathlib.Path, help="where runs write")
    parser.add_argument("--failures", type=pathlib.Path, help="folder for the runs of seeds that disagree",
                        default=pathlib.Path(tempfile.gettempdir()) / "random-jobs-failures")
    options = parser.parse_args()
    options.binaries, options.failures = options.binaries.resolve(), options.failures.resolve()
    return options


def main():
    options = parsed()
    state, seeds = State(options.state), range(options.first, options.first + options.count)
    for seed in seeds:
        if seed in state.entries:
            continue
        entry = play(seed, options)
        state.add(entry)
        verdict = "\n  ".join(["WRONG" if entry["complaints"] else "right", *entry["complaints"]])
        print(f"seed {seed}: {entry['script']}: {verdict}", flush=True)
    entries = [state.entries[seed] for seed in seeds]
    wrong = [entry["seed"] for entry in entries if entry["complaints"]]
    total = sum((collections.Counter(entry["counts"]) for entry in entries), collections.Counter())
    print(f"{len(entries)} jobs, disagree: {wrong or 'none'}; "
          + ", ".join(f"{count} {what}" for what, count in sorted(total.items())), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
