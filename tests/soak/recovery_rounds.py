#!/usr/bin/env python3
"""Rounds of a job of real processes. Up to three processes fail, possibly the coordinator. Each round must end in time,
with the weights of the undisturbed job, and leave no process or file.

    sudo python3 tests/soak/recovery_rounds.py --binaries build/release/bin --first 1 --count 500 --state rounds.jsonl
    sudo python3 tests/soak/recovery_rounds.py --binaries build/release/bin --first 137 --count 1    (one again)

The seed selects a round: 2 or 3 workers and 1 or 2 servers, as daemons, and faults at random times. A fault kills a
process, which a new one replaces, or pauses a process (SIGSTOP), or cuts off a host for some time. If a coordinator
ends because of a failure, another one continues the run (--resume).

A round must end with exit code 0 and with the weights and the state of the undisturbed job. Its time limit is the
undisturbed time, plus 10 s and three steps per fault, plus the time without a coordinator. Only nodes with a fault may
be reported as failed. No process, *.tmp file, port or network namespace may be left. Cuts need root, `ip` and `tc`:
each process then has a network namespace.

The state file has a line for each round. A new call of the command continues after the last one. The output of the
processes of a failed round is kept in --failures.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import queue
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench" / "netlab")]
import lab  # noqa: E402
from process_rounds import read, wait_until  # noqa: E402

STEPS = 300
SPAN_S = 8  # faults happen within this time after the first step
TIMEOUT_S = 3  # cluster.timeout_s
LOSS_S, LOSS_STEPS = 10, 3  # allowed extra time per failure: seconds and steps
LEAVING_S = 15  # time limit of a daemon after SIGTERM
HANGS_S = 120  # added to the time limit, for rounds that hang
PORT = 7000
# Workers, servers, comm.scheme, comm.bandwidth_limit_mbps. The link takes most of a step's time, so frames are in
# transit at any fault. All jobs take 8 s.
ARRANGEMENTS = [(2, 1, "sfb", 21), (2, 2, "ps", 420), (3, 1, "ps", 650), (3, 2, "auto", 23)]
KINDS = ["kill", "stop", "cut"]
SAMPLES = {"type": "random", "channels": 1, "height": 14, "width": 14, "classes": 10}
NETWORK = {
    "name": "small", "input": {"channels": 1, "height": 14, "width": 14},
    "defaults": {"convolution": {"weight_filler": {"type": "xavier"}}, "linear": {"weight_filler": {"type": "xavier"}}},
    "layers": [
        {"name": "conv1", "type": "convolution", "outputs": 8, "kernel": 3},
        {"name": "pool1", "type": "pooling", "kernel": 2, "stride": 2},
        {"name": "bn1", "type": "batch_norm"},
        {"name": "conv2", "type": "convolution", "outputs": 16, "kernel": 3},
        {"name": "ip1", "type": "linear", "outputs": 300},
        {"name": "relu1", "type": "relu"},
        {"name": "drop1", "type": "dropout"},
        {"name": "ip2", "type": "linear", "outputs": 10},
        {"name": "loss", "type": "softmax_loss"}]}
JOB = {
    "name": "small", "network": "network.json",
    "data": {"train": {**SAMPLES, "samples": 100}, "test": {**SAMPLES, "samples": 21, "seed": 2}, "global_batch": 12},
    "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.001},
    "train": {"steps": STEPS, "seed": 3, "log_every": 1, "test_every": STEPS // 2},
    "cluster": {"logical_shards": 6, "timeout_s": TIMEOUT_S},
    "device": {"threads": 1}}
FAILED = re.compile(r"^(?:warning|poseidon-train): (?:worker|server) \d+ \([^)]*\) failed ", re.MULTILINE)
JOINED = re.compile(r"^(?:worker|server) \d+ \(.* has joined$", re.MULTILINE)


class Stopped(Exception):
    """A signal asked this program to stop."""


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault of one process, `at_s` seconds after the first step."""
    kind: str
    target: str  # "coordinator", "worker 1"
    at_s: float
    lasts_s: float  # until it continues, its host is connected again, or a killed process is replaced
    has_spare: bool  # an additional daemon joins meanwhile

    def __str__(self):
        spare = ", and another comes" if self.has_spare else ""
        return f"{self.kind} {self.target} at {self.at_s:.2f} s for {self.lasts_s:.2f} s{spare}"


class Script:
    """The round of a seed. A round without faults is the undisturbed job of an arrangement."""

    def __init__(self, arrangement):
        self.workers, self.servers, scheme, limit = self.arrangement = arrangement
        self.most_workers = self.workers
        self.settings, self.faults = [f"comm.scheme={scheme}", f"comm.bandwidth_limit_mbps={limit}"], []
        self.members = [f"worker {i}" for i in range(self.workers)] + [f"server {i}" for i in range(self.servers)]

    @classmethod
    def of_seed(cls, seed, kinds):
        numbers = random.Random(seed)
        script = cls(numbers.choice(ARRANGEMENTS))
        script.most_workers += numbers.choice([0, 1])
        script.settings += [f"cluster.max_workers={script.most_workers}",
                            f"cluster.gather_s={numbers.choice([0, 2])}",
                            f"train.checkpoint_every={numbers.choice([0, 0, STEPS // 5])}"]
        at = 0.0
        for i in range(numbers.choice([1, 2, 3])):
            # Some faults follow closely: during a reconfiguration, or while another coordinator gathers the members.
            close = i > 0 and numbers.random() < 0.4
            at = at + numbers.random() if close else numbers.uniform(0, SPAN_S)
            script.faults.append(cls.fault(numbers, kinds, script.members, at))
        script.faults.sort(key=lambda fault: fault.at_s)
        return script

    @staticmethod
    def fault(numbers, kinds, members, at):
        kind, target = numbers.choice(kinds), numbers.choice(members)
        if numbers.random() < 0.25:
            target = "coordinator"
        brief, long = numbers.uniform(0.2, 0.8 * TIMEOUT_S), numbers.uniform(1.2 * TIMEOUT_S, 2.5 * TIMEOUT_S)
        spare = numbers.random() < 0.3
        if kind == "kill":
            return Fault(kind, target, at, numbers.choice([0, brief]), False)
        return Fault(kind, target, at, numbers.choice([brief, long, long]), spare and target != "coordinator")

    def __str__(self):
        injected = "; ".join(map(str, self.faults)) or "undisturbed"
        return f"{self.workers} workers, {self.servers} servers, {' '.join(self.settings)}: {injected}"


class Loopback:
    """Network of a round: the loopback device. Hosts cannot be cut off."""

    def __init__(self, slot, hosts):
        self.hosts, self.head = hosts, hosts
        self.port = 10000 + 200 * slot + random.randrange(200)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def address(self, _host):
        return "127.0.0.1"

    def inside(self, _host, arguments):
        return list(map(str, arguments))

    def cut(self, _host, is_cut):
        pass

    def left(self):
        try:
            socket.create_server(("127.0.0.1", self.port)).close()
        except OSError as error:
            yield f"port {self.port}: {error}"


class Namespaces(lab.Lab):
    """Network of a round: one network namespace for each member, and one for the coordinator."""

    def __init__(self, slot, hosts):
        super().__init__(hosts, rate_mbit=0, prefix=f"psr{slot}x")
        self.port = PORT

    def left(self):
        names = [name for name in os.listdir("/run/netns") if name.startswith(self.prefix)]
        links = [name for name in os.listdir("/sys/class/net") if name.startswith(self.prefix)]
        yield from (f"the namespace {name} is left" for name in names)
        yield from (f"the link {name} is left" for name in links)


class Cluster:
    """The processes of a round: coordinators, one after another, and daemons, one on each host."""

    def __init__(self, binaries, place, folder, script):
        self.binaries, self.place, self.folder, self.script = binaries, place, folder, script
        self.run, self.secret = folder / "run", folder / "secret"
        self.processes, self.current, self.killed = [], {}, set()
        (folder / "network.json").write_text(json.dumps(NETWORK))
        (folder / "job.json").write_text(json.dumps(JOB))
        self.secret.write_text("s" * 32)
        self.secret.chmod(0o600)
        self.head = f"{place.address(place.head)}:{place.port}"

    def host(self, name):
        return self.place.head if name == "coordinator" else self.script.members.index(name)

    def start(self, name, host, program, arguments):
        """Starts and returns a process. `log` is the file of its stderr; `log` with suffix .out that of its stdout."""
        number = sum(one.name == name for one in self.processes)
        log = self.folder / f"{name.replace(' ', '-')}.{number}.err"
        command = self.place.inside(host, [self.binaries / program, *arguments])
        with log.open("wb") as errors, log.with_suffix(".out").open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors,
                                       start_new_session=True)
        process.name, process.log = name, log
        self.processes.append(process)
        return process

    def start_daemon(self, name, host=None):
        """Starts a daemon. With `host`, it is an additional one with the same name."""
        role, where = name.split()[0], self.host(name) if host is None else host
        threads = ["--threads", 1] if role == "worker" else []
        process = self.start(name, where, f"poseidon-{role}",
                             ["--coordinator", self.head, "--listen", f"{self.place.address(where)}:0",
                              "--secret-file", self.secret, *threads])
        if host is None:
            self.current[name] = process

    def start_coordinator(self):
        first = [self.folder / "job.json", "--workers", self.script.workers, "--servers", self.script.servers,
                 "--output", self.run, *(part for each in self.script.settings for part in ("--set", each))]
        self.current["coordinator"] = self.start(
            "coordinator", self.place.head, "poseidon-train",
            [*(["--resume", self.run] if "coordinator" in self.current else first), "--json", "--external", "--listen",
             self.head, "--secret-file", self.secret])

    def kill(self, name):
        """Kills a process, and waits until it has freed its port."""
        process = self.current[name]
        self.killed.add(process)
        process.kill()
        process.wait()

    def coordinators(self):
        return [process for process in self.processes if process.name == "coordinator"]

    def daemons(self):
        """Daemons that were not killed."""
        return [process for process in self.processes if process.name != "coordinator" and process not in self.killed]

    def kill_all(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def left(self):
        """Processes with the round's folder in their arguments."""
        for entry in os.listdir("/proc"):
            if entry.isdigit() and str(self.folder) in read(f"/proc/{entry}/cmdline"):
                yield f"process {entry} is left: " + read(f"/proc/{entry}/cmdline").replace("\0", " ")


@dataclasses.dataclass
class Outcome:
    """Result of a round: times in seconds, and counts from the coordinators' messages."""
    seconds: float = 0
    limit: float = 0
    step_s: float = 0
    injected: int = 0
    failures: int = 0
    joins: int = 0
    resumes: int = 0
    weights: str = ""
    state: str = ""
    complaints: list = dataclasses.field(default_factory=list)

    @property
    def is_late(self):
        return self.seconds > self.limit > 0


class Round:
    """One job from start to end. `undisturbed`: the Outcome to compare with; None: no comparison."""

    def __init__(self, script, place, options, folder, undisturbed=None):
        self.script, self.place, self.options, self.folder, self.undisturbed = (
            script, place, options, folder, undisturbed)
        self.cluster = Cluster(options.binaries, place, folder, script)
        self.outcome, self.agenda, self.is_over = Outcome(), [], False
        self.injected, self.injected_now = [], []  # all faults so far; faults since the present coordinator started

    def go(self):
        try:
            with self.place:
                try:
                    self.play()
                    self.see_daemons()
                finally:
                    self.cluster.kill_all()
            self.see_left()
        except (OSError, RuntimeError, ValueError, KeyError) as error:  # faults of this script
            self.complain(f"the round itself failed: {error!r}")
        return self.outcome

    def complain(self, what):
        self.outcome.complaints.append(what)

    # ---- from the first step to the last

    def play(self):
        for name in self.script.members:
            self.cluster.start_daemon(name)
        begun = time.monotonic()
        self.cluster.start_coordinator()
        self.wait(HANGS_S, lambda: "begin with step" in self.said() or self.coordinator.poll() is not None)
        for fault in self.script.faults:
            self.later(fault.at_s, lambda fault=fault: self.inject(fault))
        if not self.wait(self.limit(self.script.faults) + HANGS_S, self.goes_on):
            self.complain(f"it hangs: {last_line(self.said())}")
        self.outcome.seconds = time.monotonic() - begun
        self.outcome.limit = self.limit(self.injected)
        self.see_logs()

    def wait(self, seconds, condition):
        """Waits for the condition, and runs the actions of the agenda that become due."""
        def look():
            if self.options.stopping.is_set():
                raise Stopped
            self.do_what_is_due()
            return condition()
        return wait_until(seconds, look)

    def do_what_is_due(self):
        now = time.monotonic()
        for entry in [entry for entry in self.agenda if entry[0] <= now]:
            self.agenda.remove(entry)
            entry[1]()

    def later(self, seconds, action):
        self.agenda.append((time.monotonic() + seconds, action))

    @property
    def coordinator(self):
        return self.cluster.current["coordinator"]

    def said(self):
        """Messages of the present coordinator."""
        return read(self.coordinator.log)

    def limit(self, faults):
        """Time limit of a round with these faults, in seconds; 0: no limit."""
        if not self.undisturbed:
            return 0
        # Each additional worker shares the servers' links. A new coordinator waits until all members have joined.
        whole = self.undisturbed.seconds * self.script.most_workers / self.script.workers
        away = sum(fault.lasts_s for fault in faults if fault.target == "coordinator" or self.outcome.resumes)
        return whole + away + self.options.slack + max(1, len(faults)) * (LOSS_S + LOSS_STEPS * self.undisturbed.step_s)

    # ---- faults

    def inject(self, fault):
        process = self.cluster.current[fault.target]
        if process.poll() is not None:  # it has no successor yet, or the job ended first
            return
        self.injected.append(fault)
        self.injected_now.append(fault.target)
        getattr(self, fault.kind)(fault, process)
        if fault.has_spare:
            role, host = fault.target.split()[0], (self.cluster.host(fault.target) + 1) % len(self.script.members)
            self.later(fault.lasts_s / 2, lambda: self.cluster.start_daemon(f"{role} spare", host))

    def kill(self, fault, _process):
        self.cluster.kill(fault.target)
        if fault.target == "coordinator":
            self.later(fault.lasts_s, self.resume)
        else:
            self.later(fault.lasts_s, lambda: self.cluster.start_daemon(fault.target))

    def stop(self, fault, process):
        process.send_signal(signal.SIGSTOP)
        self.later(fault.lasts_s, lambda: process.send_signal(signal.SIGCONT))

    def cut(self, fault, _process):
        host = self.cluster.host(fault.target)
        self.place.cut(host, True)
        self.later(fault.lasts_s, lambda: self.place.cut(host, False))

    # ---- coordinators, one after another

    def goes_on(self):
        """Whether the job has ended, successfully or not."""
        process = self.coordinator
        if self.is_over or process.poll() is None or process in self.cluster.killed:
            return self.is_over
        if process.returncode == 0:
            self.see_summary()
        elif process.returncode == 3 and self.may_end_by_a_loss():
            self.cluster.killed.add(process)  # another coordinator follows, as after a kill
            self.later(0, self.resume)
            return False
        else:
            self.complain(f"exit code {process.returncode}: {last_line(self.said())}")
        self.is_over = True
        return True

    def may_end_by_a_loss(self):
        """Whether exit code 3 is right: before the first step, without a node of a role, or after a coordinator fault."""
        if self.injected and "begin with step" not in self.said():
            return True
        injected = {fault.target for fault in self.injected}
        alive = {name.split()[0] for name in self.script.members if name not in injected}
        return "coordinator" in self.injected_now or not {"worker", "server"} <= alive

    def resume(self):
        self.see_losses()
        self.outcome.resumes += 1
        self.injected_now.clear()
        self.cluster.start_coordinator()

    # ---- checks of the result

    def see_summary(self):
        text = read(self.coordinator.log.with_suffix(".out"))
        summary = json.loads(text)
        self.outcome.weights, self.outcome.state = summary["weights_sha256"], summary["state_sha256"]
        if not summary["finished"] or summary["steps"] != STEPS or not self.outcome.weights:
            self.complain(f"the job is not finished: {text}")
        if self.undisturbed:
            for key in ("weights", "state"):
                got, expected = getattr(self.outcome, key), getattr(self.undisturbed, key)
                if got != expected:
                    self.complain(f"{key}: {got}, undisturbed {expected}")

    def see_losses(self):
        """A coordinator must not report more failed members than had faults."""
        lost = len(FAILED.findall(self.said()))
        if lost > len(self.injected_now) and "coordinator" not in self.injected_now:
            self.complain(f"{lost} members failed, {len(self.injected_now)} were targets: {self.coordinator.log.name}")

    def see_logs(self):
        self.see_losses()
        said = "".join(read(process.log) for process in self.cluster.coordinators())
        self.outcome.injected, self.outcome.failures, self.outcome.joins = (
            len(self.injected), len(FAILED.findall(said)), len(JOINED.findall(said)))
        lines = [json.loads(line) for line in read(self.cluster.run / "metrics.jsonl").splitlines()]
        steps = [line for line in lines if line["type"] == "train"]
        numbers = [line["step"] for line in steps]
        if any(next_one <= one for one, next_one in zip(numbers, numbers[1:])):
            self.complain("metrics.jsonl has a step twice")
        if steps:
            times = sorted(line["compute_ms"] + line["wait_ms"] for line in steps)
            self.outcome.step_s = times[len(times) // 2] / 1e3
        for path in self.cluster.run.rglob("*.tmp"):
            self.complain(f"{path.name} is left")

    def see_daemons(self):
        """All daemons that were not killed must wait for the next job, and end after SIGTERM."""
        for host in range(len(self.script.members) + 1):
            self.place.cut(host, False)
        for process in self.cluster.daemons():
            process.send_signal(signal.SIGCONT)
            wait_until(LEAVING_S, lambda process=process: process.log.stat().st_size > 0)  # it has started
            if process.poll() is not None:
                self.complain(f"{process.log.stem} has ended with {process.returncode}: {last_line(read(process.log))}")
            process.send_signal(signal.SIGTERM)
        for process in self.cluster.daemons():
            try:
                code = process.wait(LEAVING_S)
            except subprocess.TimeoutExpired:
                self.complain(f"{process.log.stem} was asked to end, and has not: {last_line(read(process.log))}")
                continue
            if code != 0:
                self.complain(f"{process.log.stem} was asked to end, and did with {code}: "
                              f"{last_line(read(process.log))}")

    def see_left(self):
        for what in [*self.cluster.left(), *self.place.left()]:
            self.complain(what)


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


class Rounds:
    """Runs rounds in parallel, one per slot. Each slot has a separate network."""

    def __init__(self, options):
        self.options, self.undisturbed = options, {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="poseidon-recovery-"))
        self.slots = queue.SimpleQueue()
        for slot in range(options.abreast):
            self.slots.put(slot)

    def play(self, script, folder, undisturbed=None):
        slot = self.slots.get()
        try:
            if self.options.stopping.is_set():
                raise Stopped
            place = (Namespaces if "cut" in self.options.kinds else Loopback)(slot, len(script.members))
            return Round(script, place, self.options, folder, undisturbed).go()
        finally:
            self.slots.put(slot)

    def measure(self, arrangement):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="undisturbed-", dir=self.folder))
        outcome = self.play(Script(arrangement), folder)
        if outcome.complaints:
            raise RuntimeError(f"the undisturbed job (see {folder}): " + "; ".join(outcome.complaints))
        shutil.rmtree(folder)
        return outcome

    def measure_all(self, pool):
        self.undisturbed = dict(zip(ARRANGEMENTS, pool.map(self.measure, ARRANGEMENTS)))
        for arrangement, one in self.undisturbed.items():
            print(f"undisturbed {Script(arrangement)}: {one.seconds:.1f} s, {one.weights[:12]}", flush=True)

    def round_of(self, seed):
        """The round's entry in the state file."""
        script = Script.of_seed(seed, self.options.kinds)
        folder = self.folder / f"seed-{seed}"
        folder.mkdir()
        outcome = self.play(script, folder, self.undisturbed[script.arrangement])
        if outcome.is_late:
            self.see_time(script, outcome)
        if outcome.complaints:
            self.keep(seed, script, outcome, folder)
        shutil.rmtree(folder, ignore_errors=True)
        return {"seed": seed, "script": str(script), "faults": [fault.kind for fault in script.faults],
                **dataclasses.asdict(outcome)}

    def see_time(self, script, outcome):
        """Measures the undisturbed job again: the machine may be slower than at the first measurement."""
        now = self.measure(script.arrangement)
        outcome.limit += max(0, now.seconds - self.undisturbed[script.arrangement].seconds)
        if outcome.is_late:
            outcome.complaints.append(f"it took {outcome.seconds:.1f} s, expected at most {outcome.limit:.1f} s")

    def keep(self, seed, script, outcome, folder):
        kept = self.options.failures / f"seed-{seed}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
        again = [sys.executable, pathlib.Path(__file__).resolve(), "--binaries", self.options.binaries, "--first", seed,
                 "--count", 1, "--slack", self.options.slack, "--kinds", *self.options.kinds]
        (kept / "again").write_text(shlex.join(map(str, again)) + "\n")
        (kept / "complaints").write_text("\n".join([str(script), *outcome.complaints]) + "\n")


class State:
    """Completed rounds, in a file with a line for each; without a path, in memory."""

    def __init__(self, path):
        self.path = path
        text = path.read_text(encoding="utf-8") if path and path.exists() else ""
        self.entries = {entry["seed"]: entry for entry in map(json.loads, text.splitlines())}

    def add(self, entry):
        self.entries[entry["seed"]] = entry
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


def line_of(entry):
    verdict = "WRONG" if entry["complaints"] else "right"
    times = f"{entry['seconds']:.1f} of {entry['limit']:.1f} s"
    counts = f"{entry['injected']} faults, {entry['failures']} failed, {entry['joins']} joined, {entry['resumes']} resumed"
    head = f"seed {entry['seed']}: {verdict}, {times}, {counts}; {entry['script']}"
    return "\n  ".join([head, *entry["complaints"]])


def summary_of(entries):
    wrong = [entry["seed"] for entry in entries if entry["complaints"]]
    faults = collections.Counter(kind for entry in entries for kind in entry["faults"])
    kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(faults.items()))
    totals = {key: sum(entry[key] for entry in entries) for key in ("injected", "failures", "joins", "resumes")}
    counts = ", ".join(f"{count} {key}" for key, count in totals.items())
    named = f" (seeds {', '.join(map(str, wrong))})" if wrong else ""
    return f"{len(entries)} rounds, {len(wrong)} of them wrong{named}; faults: {kinds}; {counts}"


def can_cut():
    if os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc"))):
        return False
    try:
        with Namespaces("t", 1):
            return True
    except RuntimeError:
        return False


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=20, help="how many seeds from there on")
    parser.add_argument("--state", type=pathlib.Path, help="the file of rounds that are done")
    parser.add_argument("--failures", type=pathlib.Path, help="folder for what wrong rounds have said",
                        default=pathlib.Path(tempfile.gettempdir()) / "recovery-failures")
    parser.add_argument("--abreast", type=int, default=4, help="rounds at a time")
    parser.add_argument("--slack", type=float, default=0, help="seconds more for a round, on a machine with other work")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="of faults")
    options = parser.parse_args()
    options.binaries, options.failures = options.binaries.resolve(), options.failures.resolve()
    options.stopping = threading.Event()
    if "cut" in options.kinds and not can_cut():
        print("nobody is cut off: that needs root, `ip` and `tc`", flush=True)
        options.kinds = [kind for kind in options.kinds if kind != "cut"]
    return options


def play_all(rounds, state, seeds):
    options = rounds.options
    with concurrent.futures.ThreadPoolExecutor(options.abreast) as pool:
        rounds.measure_all(pool)
        for done in concurrent.futures.as_completed([pool.submit(rounds.round_of, seed) for seed in seeds]):
            state.add(done.result())
            print(line_of(done.result()), flush=True)


def main():
    options = parsed()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores SIGHUP, and child processes inherit that
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: options.stopping.set())
    state, seeds = State(options.state), range(options.first, options.first + options.count)
    rounds = Rounds(options)
    try:
        play_all(rounds, state, [seed for seed in seeds if seed not in state.entries])
    except Stopped:
        print("asked to end", flush=True)
    finally:
        shutil.rmtree(rounds.folder, ignore_errors=True)
    print(summary_of(list(state.entries.values())), flush=True)
    return 1 if options.stopping.is_set() or any(state.entries[seed]["complaints"] for seed in seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
