#!/usr/bin/env python3
"""Starts jobs as configs/cluster describes, with the real launchers, on this machine.

  launchers.py --binaries build/release/bin slurm     munged, slurmctld and slurmd of its own, and sbatch
  launchers.py --binaries build/release/bin mpirun    Open MPI's mpirun
  launchers.py --binaries build/release/bin spot      workers that are killed, and come again by what stands for ssh

One job of each launcher runs to its end: exit code 0 and a last checkpoint. Another job is stopped and must leave a
checkpoint too. All files of the launchers are in a temporary folder, and no process is left. Exit code 77: a launcher
is not installed, or the user is not root.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from process_rounds import JOB, NETWORK

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
STEPS = 200
LONG = ["--set", "train.steps=10000000"]
PATIENCE_S = 120
SLURM_PROGRAMS = ["munged", "slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "sinfo"]
SLURM_CONF = """
ClusterName=poseidon
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
KillWait=60
MinJobAge=3600
NodeName=localhost NodeAddr=127.0.0.1 CPUs={cores} State=UNKNOWN
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def say(line):
    print(line, flush=True)


def require(condition, what):
    if not condition:
        raise AssertionError(what)


def wait_for(what, condition):
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"waited {PATIENCE_S} s for {what}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_job(folder):
    (folder / "tiny_network.json").write_text(json.dumps(NETWORK), encoding="utf-8")
    job = {**JOB, "train": {**JOB["train"], "steps": STEPS, "log_every": 50}}
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")


def check_run(run, log, steps=None, workers=2):
    """Checks a run with this number of workers. `steps` None: it stopped early, with a checkpoint and no failure."""
    said = log.read_text(encoding="utf-8") if log.exists() else ""
    require((run / "summary.json").exists(), f"{run} has no summary:\n{said}")
    summary = json.loads((run / "summary.json").read_text(encoding="utf-8"))
    require(summary["workers"] == workers and "failure" not in summary, f"{summary}\n{said}")
    require(summary["finished"] == (steps is not None), f"{summary}\n{said}")
    checkpoints = sorted((run / "checkpoints").glob("step-*.safetensors"), key=lambda file: file.stat().st_mtime)
    require(checkpoints, f"{run} has no checkpoint:\n{said}")
    require(steps is None or checkpoints[-1].name == f"step-{steps}.safetensors", checkpoints[-1].name)
    return checkpoints[-1].name


def left_behind(folder):
    """Processes with the folder of this test in their arguments."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if entry.name.isdigit() and int(entry.name) != os.getpid() and str(folder) in words:
                found.append(f"{entry.name}: {words}")
    return found


def check_nothing_left(folder):
    secrets = list(folder.glob(".poseidon-secret-*"))
    require(not secrets, f"left behind: {secrets}")
    wait_for("the processes to be gone", lambda: not left_behind(folder))


class Slurm:
    """A Slurm cluster of one node: this machine."""

    def __init__(self, folder, environment):
        self.folder, self.daemons = folder, []
        self.configuration = folder / "slurm.conf"
        self.environment = {**environment, "SLURM_CONF": str(self.configuration)}

    def __enter__(self):
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.configuration.write_text(SLURM_CONF.format(
            folder=self.folder, cores=os.cpu_count(), controller_port=free_port(), node_port=free_port()),
            encoding="ascii")
        try:
            self.start_munge()
            self.start("slurmctld", "-D", "-f", self.configuration)
            self.start("slurmd", "-D", "-f", self.configuration, "-N", "localhost")
            wait_for("the node to be idle", lambda: self.says("sinfo", "-h", "-o", "%T") == "idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_munge(self):
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(64))
        endpoint = self.folder / "munge.socket"
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={endpoint}",
                   f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munged.seed",
                   f"--log-file={self.folder}/munged.log")
        wait_for("munged to listen", endpoint.exists)

    def start(self, program, *words):
        log = (self.folder / f"{program}.out").open("wb")
        self.daemons.append(subprocess.Popen([shutil.which(program), *map(str, words)], env=self.environment,
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT))

    def says(self, *words):
        done = subprocess.run(words, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def submit(self, name, *more):
        number = self.says("sbatch", "--parsable", "--nodes=1", "--ntasks-per-node=2", "--cpus-per-task=1",
                           "--overcommit", f"--output={name}.log", ROOT / "configs" / "cluster" / "slurm.sbatch",
                           "job.json", "--output", name, *more)
        require(number.isdigit(), f"sbatch did not take the job: {number!r}")
        return number

    def job(self, number):
        """Slurm's record of a job, by key."""
        words = self.says("scontrol", "--oneliner", "show", "job", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def ended(self, number):
        job = self.job(number)
        return job if job.get("JobState") not in ("PENDING", "RUNNING", "COMPLETING", None) else None

    def __exit__(self, *_):
        """Stops slurmctld before slurmd, which it would report as missing. Stops munged last: both need it."""
        for daemon in sorted(self.daemons, key=lambda one: "munged" in one.args[0]):
            daemon.terminate()
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()

    def last_words(self):
        return "\n".join(f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}" for log in self.folder.glob("*.out"))


def play_slurm(folder, environment):
    with Slurm(folder, environment) as slurm:
        try:
            number = slurm.submit("whole")
            job = wait_for("the job's end", lambda: slurm.ended(number))
            log = folder / "whole.log"
            require((job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0"),
                    f"{job['JobState']}, {job['ExitCode']}\n{log.read_text()}")
            say(f"sbatch: {job['JobState']}, exit code {job['ExitCode']}, {check_run(folder / 'whole', log, STEPS)}")

            number = slurm.submit("refused", "--set", "train.steps=-1")
            job = wait_for("the job's end", lambda: slurm.ended(number))
            require((job["JobState"], job["ExitCode"]) == ("FAILED", "2:0"), f"{job['JobState']}, {job['ExitCode']}")
            say(f"a wrong job: {job['JobState']}, exit code {job['ExitCode']}")

            # The second signal is the one that Slurm sends before the time limit: --signal=B:TERM@120.
            for name, words, state in (("cancelled", ["scancel"], "CANCELLED"),
                                       ("late", ["scancel", "--batch", "--signal=TERM"], "COMPLETED")):
                number, log = slurm.submit(name, *LONG), folder / f"{name}.log"
                wait_for("the first steps", lambda: log.exists() and "step 2" in log.read_text())
                slurm.says(*words, number)
                job = wait_for("the job's end", lambda: slurm.ended(number))
                wait_for("the batch script's end", lambda: slurm.says("sinfo", "-h", "-o", "%T") == "idle")
                said = log.read_text()
                require(job["JobState"] == state and " failed " not in said, f"{job['JobState']}\n{said}")
                say(f"{' '.join(words)}: {state}, {check_run(folder / name, log)}")
            play_requeue(slurm, folder)
        except AssertionError:
            say(slurm.last_words())
            raise


def play_requeue(slurm, folder):
    """A job that Slurm requeues continues from its last checkpoint, twice."""
    number, log = slurm.submit("again", *LONG, "--set", "train.checkpoint_every=50"), folder / "again.log"

    def starts():
        return log.read_text().count(" begin with step ") if log.exists() else 0

    for times in (1, 2):
        wait_for(f"start {times} of the job", lambda: starts() == times)
        wait_for("some steps", lambda: list((folder / "again" / "checkpoints").glob("step-*.state")))
        slurm.says("scontrol", "requeue", number)
        wait_for("the job to be queued", lambda: slurm.job(number)["JobState"] == "PENDING")
        slurm.says("scontrol", "update", f"jobid={number}", "StartTime=now")  # without this, Slurm waits two minutes
    wait_for("start 3 of the job", lambda: starts() == 3)
    require(log.read_text().count(" begin with step 1 ") == 1, log.read_text())
    slurm.says("scancel", "--batch", "--signal=TERM", number)
    job = wait_for("the job's end", lambda: slurm.ended(number))
    require((job["JobState"], job["Restarts"]) == ("COMPLETED", "2"), f"{job}\n{log.read_text()}")
    say(f"scontrol requeue, twice: {job['JobState']}, {check_run(folder / 'again', log)}")


def play_mpirun(folder, environment):
    environment = {**environment, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "HEAD": "localhost", "WORKERS": "2"}

    def start(name, *more):
        log = (folder / f"{name}.log").open("wb")
        return subprocess.Popen([ROOT / "configs" / "cluster" / "openmpi.sh", "job.json", "--output", name, *more],
                                cwd=folder, env={**environment, "PORT": str(free_port())}, start_new_session=True,
                                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    log = folder / "whole.log"
    code = start("whole").wait(PATIENCE_S)
    require(code == 0, f"exit code {code}\n{log.read_text()}")
    say(f"mpirun: exit code 0, {check_run(folder / 'whole', log, STEPS)}")

    code = start("refused", "--set", "train.steps=-1").wait(PATIENCE_S)
    require(code == 2, f"exit code {code}\n{(folder / 'refused.log').read_text()}")
    say("a wrong job: exit code 2")

    stopped, log = start("stopped", *LONG), folder / "stopped.log"
    wait_for("the first steps", lambda: "step 2" in log.read_text())
    os.killpg(stopped.pid, signal.SIGINT)  # as Ctrl-C in a terminal
    code = stopped.wait(PATIENCE_S)
    require(code == 0 and " lost " not in log.read_text(), f"exit code {code}\n{log.read_text()}")
    say(f"Ctrl-C: exit code 0, {check_run(folder / 'stopped', log)}")


def play_spot(folder, environment):
    """This machine under two names. A worker is killed, like one whose spot machine vanishes."""
    (folder / "ssh").write_text('#!/bin/sh\nshift\nexec sh -c "$*"\n', encoding="ascii")
    (folder / "ssh").chmod(0o755)
    (folder / "hosts").write_text("# machines\nlocalhost\n127.0.0.1\n", encoding="ascii")
    log = folder / "run.log"
    environment = {**environment, "HOSTS": "hosts", "HEAD": "127.0.0.1", "PORT": str(free_port()),
                   "SSH": str(folder / "ssh")}
    script = subprocess.Popen([ROOT / "configs" / "cluster" / "spot.sh", "job.json", "--output", "run", *LONG],
                              cwd=folder, env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
                              stdout=log.open("wb"), stderr=subprocess.STDOUT)
    wait_for("the first steps", lambda: "step 50/" in log.read_text())
    worker = [entry.split(":")[0] for entry in left_behind(environment["PORT"])
              if re.match(r"\d+: \S*poseidon-worker .*--advertise localhost:0", entry)]
    os.kill(int(worker[0]), signal.SIGKILL)
    wait_for("another worker in its place", lambda: " has joined" in log.read_text())
    wait_for("2 workers again", lambda: "2 workers and 2 servers continue with step" in log.read_text())
    script.terminate()
    code = script.wait(PATIENCE_S)
    require(code == 0, f"exit code {code}\n{log.read_text()}")
    say(f"a worker lost, and one in its place: exit code 0, {check_run(folder / 'run', log, workers=3)}")


def why_not(launcher):
    programs = {"slurm": SLURM_PROGRAMS, "mpirun": ["mpirun"], "spot": []}[launcher]
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        return f"there is no {', '.join(missing)} here"
    if launcher == "slurm" and os.geteuid() != 0:
        return "slurmd needs root"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("launcher", choices=["slurm", "mpirun", "spot"])
    given = parser.parse_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # daemons are there; not all users have these in PATH
    if reason := why_not(given.launcher):
        say(f"skipped: {reason}")
        sys.exit(SKIPPED)
    environment = {**os.environ, "PATH": f"{given.binaries.resolve()}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory(prefix="poseidon-launch-") as name:
        folder = pathlib.Path(name)
        write_job(folder)
        {"slurm": play_slurm, "mpirun": play_mpirun, "spot": play_spot}[given.launcher](folder, environment)
        check_nothing_left(folder)
    say("passed")


if __name__ == "__main__":
    main()
