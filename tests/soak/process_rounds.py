#!/usr/bin/env python3
"""Rounds of real processes, each with one fault at a random time. The survivors must end in time and name the failed
node. A run from the newest checkpoint must give the bits of an undisturbed run.

  process_rounds.py --binaries build/release/bin --rounds 200 --seed 1
  process_rounds.py --binaries build/release/bin --rounds 1 --seed 137 --keep   (one again)

Round i of a seed is round 0 of seed + i. The full-disk fault needs root. The slow-disk fault needs a C compiler.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

STEPS = 1500
WORKERS, SERVERS = 2, 2
NETWORK = {
    "name": "tiny", "input": {"channels": 2, "height": 6, "width": 6},
    "layers": [
        {"name": "conv", "type": "convolution", "outputs": 5, "kernel": 3, "bias": False,
         "weight_filler": {"type": "xavier"}},
        {"name": "bn", "type": "batch_norm"},
        {"name": "relu", "type": "relu"},
        {"name": "drop", "type": "dropout"},
        {"name": "ip", "type": "linear", "outputs": 3, "weight_filler": {"type": "xavier"}},
        {"name": "loss", "type": "softmax_loss"}]}
SAMPLES = {"type": "random", "channels": 2, "height": 6, "width": 6, "classes": 3}
JOB = {
    "name": "tiny", "network": "tiny_network.json",
    "data": {"train": {**SAMPLES, "samples": 50, "transform": {"scale": 0.01}},
             "test": {**SAMPLES, "samples": 21, "seed": 2}, "global_batch": 8},
    "optimizer": {"type": "sgd", "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 0.001},
    "train": {"steps": STEPS, "seed": 3, "log_every": 1000},
    "cluster": {"logical_shards": 2}, "device": {"threads": 1}}
# Seconds. A coordinator that is stopped during a write holds the lock of the checkpoints; workers wait 10 s for it.
LOCK_WAIT = 10
FAULTS = ["kill", "stop", "group", "disk", "slow disk", "cut", "silence"]
# A slow disk: fsync takes half a second in a quarter of the calls, and 20 ms in the others.
SLOW_DISK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int fsync(int file) {
  static int (*really)(int);
  if (!really) really = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  usleep(rand() % 4 == 0 ? 500000 : 20000);
  return really(file);
}
"""


def make_slow_disk(folder):
    """Builds a shared library for LD_PRELOAD."""
    library = pathlib.Path(folder) / "slow_disk.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=SLOW_DISK, text=True,
                   check=True)
    return str(library)


def wait_until(seconds, condition):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def read(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError:
        return ""


def children_of(coordinator):
    """Process ids of the members that a coordinator has started, by name ("worker 1")."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        words = read(f"/proc/{entry}/cmdline").split("\0")
        stat = read(f"/proc/{entry}/stat").rpartition(")")[2].split()
        if len(stat) > 1 and int(stat[1]) == coordinator and "--rank" in words:
            role = "worker" if words[0].endswith("worker") else "server"
            found[f"{role} {words[words.index('--rank') + 1]}"] = int(entry)
    return found


def is_running(pid):
    stat = read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(stat) and stat[0] not in "XZ"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Proxy:
    """Forwards connections to the coordinator. Can reset them, or stop forwarding."""

    def __init__(self, port):
        self.target, self.silent, self.pairs = port, False, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                if self.listener.fileno() < 0:
                    return
                near.close()
                continue
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.pass_on, args=(one, other), daemon=True).start()

    def pass_on(self, one, other):
        try:
            while data := one.recv(1 << 16):
                while self.silent:
                    time.sleep(0.05)
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.silent = False
        self.listener.close()
        for pair in self.pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                end.close()


class Round:
    def __init__(self, options, seed, digests):
        self.options, self.seed, self.digests = options, seed, digests
        self.random = random.Random(seed)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"round-{seed}-", dir=options.folder))
        self.run = self.folder / "run"
        self.complaints, self.processes, self.proxies = [], {}, {}
        self.mounted = False
        self.fault = self.random.choice(options.faults)
        self.role = self.random.choice(["coordinator", "worker", "server"])
        self.rank = self.random.randrange(2)
        self.scheme = self.random.choice(["ps", "sfb", "auto"])
        self.every = self.random.choice([0, 1, 1, 1, 7])
        self.external = self.fault in ("cut", "silence") or self.random.random() < 0.3
        if self.fault in ("group", "disk"):
            self.role, self.external = "coordinator", False
        self.slow = self.fault == "slow disk"  # with a process that is killed
        if self.slow:
            self.fault = "kill"
        if self.fault in ("cut", "silence") and self.role == "coordinator":
            self.role = "worker"
        # Daemons that stay after the failure: the coordinator can fetch their in-memory checkpoint.
        self.lasting = self.external and self.role == "coordinator"

    def __str__(self):
        return (f"{'on a slow disk, ' if self.slow else ''}{self.fault} of {self.target()}, {self.scheme}, a checkpoint every {self.every}, "
                f"{'daemons' if self.external else 'children'}")

    def target(self):
        return "the coordinator" if self.role == "coordinator" else f"{self.role} {self.rank}"

    def complain(self, what):
        self.complaints.append(what)

    # ---- processes

    def program(self, name):
        return str(self.options.binaries / name)

    def start(self, name, words, key):
        log = open(self.folder / f"{key}.err", "wb")
        out = open(self.folder / f"{key}.out", "wb")
        environment = {**os.environ, "LD_PRELOAD": self.options.slow_disk} if self.slow else None
        self.processes[key] = subprocess.Popen([self.program(name), *words], stdout=out, stderr=log, env=environment,
                                               stdin=subprocess.DEVNULL, start_new_session=True)

    def start_all(self):
        (self.folder / "tiny_network.json").write_text(json.dumps(NETWORK))
        (self.folder / "job.json").write_text(json.dumps(JOB))
        if self.fault == "disk":
            self.run.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400k", "none", self.run], check=True)
            self.mounted = True
        words = [str(self.folder / "job.json"), "--workers", str(WORKERS), "--servers", str(SERVERS),
                 "--json", "--output", str(self.run), "--set", f"comm.scheme={self.scheme}",
                 "--set", f"cluster.timeout_s={self.options.timeout}", "--set", "cluster.recover=stop",
                 "--set", f"train.checkpoint_every={self.every}"]
        if self.external:
            secret = self.folder / "secret"
            secret.write_text("s" * 32)
            secret.chmod(0o600)
            port = free_port()
            self.reached = ["--external", "--listen", f"127.0.0.1:{port}", "--secret-file", str(secret)]
            words += self.reached
            for role in ("worker", "server"):
                for rank in range(2):
                    proxy = self.proxies[f"{role} {rank}"] = Proxy(port)
                    more = ["--threads", "1"] if role == "worker" else []
                    self.start(f"poseidon-{role}", ["--coordinator", proxy.address, "--secret-file",
                                                    str(secret), "--rank", str(rank), *more,
                                                    *([] if self.lasting else ["--once"])], f"{role} {rank}")
        self.start("poseidon-train", words, "the coordinator")

    def said(self, key="the coordinator"):
        return read(self.folder / f"{key}.err")

    def log_of(self, key):
        return self.said(key) if self.external else read(
            self.run / "logs" / (key.replace(" ", "-") + ".log"))

    def members(self):
        """Process ids by name."""
        if self.external:
            return {key: each.pid for key, each in self.processes.items() if "er " in key}
        return children_of(self.processes["the coordinator"].pid)

    def has_ended(self, pid):
        for each in self.processes.values():
            if each.pid == pid:
                return each.poll() is not None
        return not is_running(pid)

    # ---- the fault

    def inject(self, members):
        train = self.processes["the coordinator"]
        pid = train.pid if self.role == "coordinator" else members.get(self.target())
        if pid is None or self.has_ended(pid):
            return None  # the job ended before the fault
        if self.fault == "kill":
            os.kill(pid, signal.SIGKILL)
        elif self.fault == "stop":
            os.kill(pid, signal.SIGSTOP)
        elif self.fault == "group":
            number = self.random.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
            for _ in range(self.random.choice([1, 2])):
                os.killpg(train.pid, number)
        elif self.fault == "cut":
            self.proxies[self.target()].close()
        elif self.fault == "silence":
            self.proxies[self.target()].silent = True
        return pid

    def go(self):
        try:
            self.play()
        except Exception as error:  # a fault of this script
            self.complain(f"the round itself failed: {error!r}")
        finally:
            self.clean_up()
        return self.complaints

    def play(self):
        self.start_all()
        train = self.processes["the coordinator"]
        if not wait_until(60, lambda: "begin with step" in self.said() or train.poll() is not None):
            return self.complain(f"it never began: {self.said()}")
        members = self.members()
        time.sleep(self.random.random() * 0.7)
        injected_at = time.monotonic()
        target = None if self.fault == "disk" else self.inject(members)
        survivors = [train.pid, *members.values()]
        if target is not None and self.fault != "group":
            survivors.remove(target) if self.fault in ("kill", "stop") else None
        limit = 60 if self.fault == "disk" else self.options.timeout + self.options.slack
        if self.fault == "stop" and self.role == "coordinator":
            limit += LOCK_WAIT
        if self.lasting:
            limit += 60 if target is None else 0
            self.see_members_words(limit)
        elif not wait_until(limit, lambda: all(self.has_ended(pid) for pid in survivors)):
            left = [key for key, pid in {"the coordinator": train.pid, **members}.items()
                    if pid in survivors and not self.has_ended(pid)]
            self.complain(f"after {time.monotonic() - injected_at:.1f} s there are left: {left}")
        if not self.lasting:
            self.see_words(train)
        if target is not None:
            try:
                os.kill(target, signal.SIGKILL)
            except OSError:
                pass
        if self.lasting and target is not None:
            train.wait()
            self.see_kept_step()
        self.see_disk()

    # ---- checks of the result

    def see_words(self, train):
        said, code = self.said(), train.poll()
        if code == 0 or code is None and self.fault not in ("kill", "stop"):
            return
        if self.role == "coordinator" and self.fault in ("kill", "stop"):
            return self.see_members_words()
        if self.fault == "group":
            if not (code == 1 and "stopped before the first step" in said):
                self.complain(f"ended by signals with {code}: {said}")
        elif self.fault == "disk":
            if code != 1 or "the coordinator failed in step" not in said:
                self.complain(f"full disk: {code}: {said}")
        else:
            last = said.strip().splitlines()[-1]
            if code != 3 or not last.startswith(f"poseidon-train: {self.target()} (127.0.0.1:"):
                self.complain(f"exit code {code}, it says: {last}")

    def see_members_words(self, limit=0):
        if (self.run / "summary.json").exists():
            return

        def tells(key):
            log = self.log_of(key)
            return "warning: the coordinator (127.0.0.1:" in log or "the job is done" in log

        for key in ("worker 0", "worker 1", "server 0", "server 1"):
            if not wait_until(limit, lambda key=key: tells(key)):
                self.complain(f"{key} does not name the coordinator: {self.log_of(key)}")

    def see_kept_step(self):
        """A resumed run must start from the daemons' in-memory checkpoint and give the same bits."""
        steps = [int(step) for rank in range(2)
                 for step in re.findall(r"keeps an in-memory checkpoint of step (\d+)", self.log_of(f"worker {rank}"))]
        if not steps or not self.run.exists():
            return
        done = subprocess.run([self.program("poseidon-train"), "--resume", str(self.run), "--json", *self.reached,
                               "--set", "train.checkpoint_every=0"], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            return self.complain(f"resume of an in-memory checkpoint: {done.stderr}")
        summary = json.loads(done.stdout)
        if summary["weights_sha256"] != self.digests[self.scheme]:
            self.complain("an in-memory checkpoint led to other bits")
        if summary["first_step"] <= max(steps):
            self.complain(f"went on with step {summary['first_step']}, but step {max(steps)} was kept")

    def see_disk(self):
        # A coordinator that resumes the run removes the temporary files of a killed one.
        if self.role != "coordinator" or self.fault not in ("kill", "stop"):
            self.see_no_temporary_files()
        if self.mounted:
            saved = self.folder / "saved"
            shutil.copytree(self.run, saved)
            self.run = saved
        if not list((self.run / "checkpoints").glob("*.state")):
            return
        done = subprocess.run([self.program("poseidon-train"), "--resume", str(self.run), "--workers",
                               "1", "--json", "--set", "train.checkpoint_every=0"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            return self.complain(f"resume: {done.stderr}")
        if json.loads(done.stdout)["weights_sha256"] != self.digests[self.scheme]:
            self.complain("resumed to other bits")
        self.see_no_temporary_files()

    def see_no_temporary_files(self):
        for path in self.run.rglob("*.tmp"):
            self.complain(f"{path.name} is left")

    def clean_up(self):
        for proxy in self.proxies.values():
            proxy.close()
        for process in self.processes.values():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            process.wait()
        if self.mounted:
            subprocess.run(["umount", self.folder / "run"], check=False)
        if not self.complaints and not self.options.keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def undisturbed(options, scheme):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="undisturbed-", dir=options.folder))
    (folder / "tiny_network.json").write_text(json.dumps(NETWORK))
    (folder / "job.json").write_text(json.dumps(JOB))
    done = subprocess.run([str(options.binaries / "poseidon-train"), str(folder / "job.json"), "--workers", "2",
                           "--servers", "2", "--json", "--output", str(folder / "run"), "--set",
                           f"comm.scheme={scheme}"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["weights_sha256"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--abreast", type=int, default=2, help="rounds at a time")
    parser.add_argument("--timeout", type=int, default=3, help="cluster.timeout_s")
    parser.add_argument("--slack", type=float, default=5, help="seconds beyond it, on busy cores")
    parser.add_argument("--faults", nargs="+", choices=FAULTS, default=FAULTS)
    parser.add_argument("--keep", action="store_true", help="keep the folders of good rounds too")
    options = parser.parse_args()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores SIGHUP, and child processes inherit that
    options.binaries = options.binaries.resolve()
    if os.geteuid() != 0 and "disk" in options.faults:
        options.faults = [fault for fault in options.faults if fault != "disk"]
    options.folder = tempfile.mkdtemp(prefix="poseidon-rounds-")
    options.slow_disk = make_slow_disk(options.folder)
    digests = {scheme: undisturbed(options, scheme) for scheme in ("ps", "sfb", "auto")}
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(options.abreast) as pool:
        rounds = [Round(options, options.seed + i, digests) for i in range(options.rounds)]
        for each, complaints in zip(rounds, pool.map(Round.go, rounds)):
            if complaints:
                bad += 1
                print(f"seed {each.seed}: {each} (see {each.folder})", *complaints, sep="\n  ",
                      flush=True)
    print(f"{options.rounds} rounds, {bad} of them bad")
    if bad == 0 and not options.keep:
        shutil.rmtree(options.folder, ignore_errors=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
