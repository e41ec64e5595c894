#!/usr/bin/env python3
"""Runs over real ssh, on hosts that are network namespaces. One run goes to its end. Others end early because
poseidon-train, a connection or a link fails.

    sudo python3 tests/soak/ssh_hosts.py --binaries build/release/bin

Each of two hosts has an sshd with separate keys and settings, all in a temporary folder. The script does not read or
change the system's configuration. It needs root, ip, tc, ssh and sshd. If one is missing, it exits with code 77.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench" / "netlab")]
import lab  # noqa: E402
import process_rounds  # noqa: E402

SKIPPED = 77
PORT = 2222
TIMEOUT_S = 3  # cluster.timeout_s
LEAVING_S = 30  # time limit of a member without a coordinator; after that it is killed
SECRET = re.compile(rb"[0-9a-f]{64}")
MEMBERS = ("poseidon-worker", "poseidon-server")
SSHD = """
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
"""
SSH = """
IdentityFile {folder}/user_key
IdentitiesOnly yes
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking yes
"""
# sshd uses the system's /run/sshd for its unprivileged process. Here /run is a private tmpfs.
START_SSHD = "mount -t tmpfs none /run && mkdir /run/sshd && exec {sshd} -D -e -f {folder}/sshd_config"


def why_not():
    """The reason why this script cannot run here; "" if it can."""
    if os.geteuid() != 0:
        return "it needs root, for network namespaces"
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    missing = [name for name in ("ip", "tc", "ssh", "ssh-keygen", "sshd") if not shutil.which(name, path=path)]
    return f"there is no {', no '.join(missing)}" if missing else ""


class SshLab(lab.Lab):
    """Two hosts with an sshd each, and a head that connects to them."""

    def __init__(self, folder):
        lab.PREFIX = "psds"  # another lab may be running with the default prefix
        super().__init__(hosts=2, rate_mbit=1000)
        self.folder = pathlib.Path(folder)

    def __enter__(self):
        super().__enter__()
        for key in ("host_key", "user_key"):
            lab.command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / key))
        public = " ".join((self.folder / "host_key.pub").read_text().split()[:2])
        known = [f"[{self.address(host)}]:{PORT} {public}\n" for host in range(self.hosts)]
        (self.folder / "known_hosts").write_text("".join(known))
        (self.folder / "sshd_config").write_text(SSHD.format(folder=self.folder, port=PORT))
        (self.folder / "ssh_config").write_text(SSH.format(folder=self.folder))
        (self.folder / "bin").mkdir()
        wrapper = self.folder / "bin" / "ssh"
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {self.folder}/ssh_config "$@"\n')
        wrapper.chmod(0o755)
        sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        for host in range(self.hosts):
            with open(self.folder / f"sshd-{host}.log", "wb") as log:
                self.start(host, ["unshare", "--mount", "sh", "-c", START_SSHD.format(sshd=sshd, folder=self.folder)],
                           stdout=log, stderr=log)
        if not process_rounds.wait_until(10, lambda: all(map(self.answers, range(self.hosts)))):
            raise RuntimeError("an sshd does not answer:\n" + (self.folder / "sshd-0.log").read_text())
        return self

    def __exit__(self, *_):
        self.cut(1, False)
        for host in range(self.hosts + 1):  # sshd does not end its sessions
            for pid in self.processes_on(host):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        super().__exit__()

    def answers(self, host):
        words = [self.folder / "bin" / "ssh", "-o", "BatchMode=yes", "-p", PORT, self.address(host), "true"]
        return subprocess.run(self.inside(self.head, words), stdin=subprocess.DEVNULL, capture_output=True,
                              check=False).returncode == 0

    def processes_on(self, host):
        listed = subprocess.run(["ip", "netns", "pids", f"{lab.PREFIX}{host}"], capture_output=True, text=True,
                                check=False)
        return [int(pid) for pid in listed.stdout.split()]

    def members(self, host):
        """Process ids by name ("poseidon-worker 1")."""
        found = {}
        for pid in self.processes_on(host):
            words = process_rounds.read(f"/proc/{pid}/cmdline").split("\0")
            name = pathlib.Path(words[0]).name
            if name in MEMBERS:
                found[f"{name} {words[words.index('--rank') + 1]}"] = pid
        return found

    def all_members(self):
        return {**self.members(0), **self.members(1)}


class Runs:
    """Runs of one job on the lab's hosts. Collects faults."""

    def __init__(self, hosts, binaries):
        self.lab, self.binaries = hosts, binaries
        self.folder, self.count, self.faults = hosts.folder, 0, []
        (self.folder / "tiny_network.json").write_text(json.dumps(process_rounds.NETWORK))
        (self.folder / "job.json").write_text(json.dumps(process_rounds.JOB))
        lines = [f"root@{hosts.address(host)}:{PORT}  # a host" for host in range(hosts.hosts)]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        self.environment = {**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}

    def expect(self, holds, what):
        if not holds:
            self.faults.append(what)
            print(f"  WRONG: {what}", flush=True)

    def start(self, steps=10 ** 6):
        self.count += 1
        self.run = self.folder / f"run-{self.count}"
        self.said = self.folder / f"said-{self.count}"
        words = [self.binaries / "poseidon-train", self.folder / "job.json", "--hosts", self.folder / "hosts",
                 "--listen", f"{self.lab.address(self.lab.head)}:0", "--output", self.run, "--json",
                 "--set", f"train.steps={steps}", "--set", f"cluster.timeout_s={TIMEOUT_S}",
                 "--set", "cluster.recover=stop"]
        with open(self.said, "wb") as said, open(self.folder / "summary", "wb") as summary:
            return self.lab.start(self.lab.head, words, env=self.environment, stdout=summary, stderr=said,
                                  start_new_session=True)

    def begin(self):
        """Starts a long run and waits for its first step."""
        train = self.start()
        began = process_rounds.wait_until(60, lambda: "begin with step" in self.words() or train.poll() is not None)
        self.expect(began and train.poll() is None, f"a run did not begin: {self.words()}")
        return train

    def words(self):
        return process_rounds.read(self.said)

    def ends(self, train, seconds, code):
        """Expects that `train` exits within `seconds`, with this code."""
        began = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            train.wait(seconds)
        self.expect(train.poll() == code, f"expected exit code {code} within {seconds} s, got {train.poll()}: "
                                          f"{self.words()}")
        print(f"  poseidon-train has ended after {time.monotonic() - began:.1f} s: "
              f"{self.words().strip().splitlines()[-1]}", flush=True)

    def nobody_is_left(self, seconds):
        began = time.monotonic()
        gone = process_rounds.wait_until(seconds, lambda: not self.lab.all_members())
        self.expect(gone, f"after {seconds} s there are left: {self.lab.all_members()}")
        print(f"  nobody is left after {time.monotonic() - began:.1f} s", flush=True)

    # ---- test cases

    def a_run_has_the_bits_of_a_local_one(self):
        train = self.start(steps=process_rounds.STEPS)
        self.ends(train, 60, 0)
        self.nobody_is_left(5)
        words = [self.binaries / "poseidon-train", self.folder / "job.json", "--workers", "2", "--json",
                 "--output", self.folder / "local"]
        local = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)
        summary = json.loads(process_rounds.read(self.folder / "summary"))
        self.expect(summary["weights_sha256"] == json.loads(local.stdout)["weights_sha256"], "other bits")
        logs = {path.name for path in (self.run / "logs").iterdir()}
        self.expect(logs == {"worker-0.log", "worker-1.log", "server-0.log", "server-1.log"}, f"logs: {logs}")

    def a_signal_to_the_group_ends_a_run_with_a_checkpoint(self):
        train = self.begin()
        os.killpg(train.pid, signal.SIGINT)  # like Ctrl-C in a terminal: each ssh gets it too
        self.ends(train, 20, 0)
        self.expect((self.run / "checkpoints").is_dir(), "there is no checkpoint")
        self.nobody_is_left(5)

    def nobody_shows_the_secret(self):
        train = self.begin()
        hosts = [pid for host in range(self.lab.hosts + 1) for pid in self.lab.processes_on(host)]
        self.expect(len(self.lab.members(0)) == 2 and len(self.lab.members(1)) == 2,
                    f"two members on each host, got {self.lab.all_members()}")
        own = pathlib.Path("/proc/self/environ").read_bytes().split(b"\0")
        for pid in hosts:
            for name in ("cmdline", "environ"):
                with contextlib.suppress(OSError):
                    shown = pathlib.Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
                    secret = [word for word in shown if SECRET.search(word) and word not in own]
                    self.expect(not secret, f"{name} of {pid} shows a secret")
        train.send_signal(signal.SIGTERM)
        self.ends(train, 20, 0)

    def nobody_outlives_a_killed_poseidon_train(self):
        train = self.begin()
        train.kill()
        train.wait()
        self.nobody_is_left(TIMEOUT_S + LEAVING_S)

    def nobody_outlives_one_that_is_killed_while_it_starts_them(self):
        for delay in (0.02, 0.1, 0.2, 0.3, 0.5):
            train = self.start()
            time.sleep(delay)
            train.kill()
            train.wait()
            # An ssh that has just started still starts its member. That member then has no stdin.
            self.expect(process_rounds.wait_until(20, lambda: not self.lab.processes_on(self.lab.head)),
                        f"killed after {delay} s: an ssh is left")
            self.nobody_is_left(TIMEOUT_S + LEAVING_S)

    def a_killed_connection_ends_its_member(self):
        train = self.begin()
        for pid in self.lab.processes_on(self.lab.head):
            words = process_rounds.read(f"/proc/{pid}/cmdline")
            if "poseidon-worker" in words and "--rank 1" in words and pid != train.pid:
                os.kill(pid, signal.SIGKILL)
        self.ends(train, 20, 3)
        self.expect("worker 1 (" in self.words() and "its standard input has ended" in self.words(),
                    f"worker 1 and its reason are not named: {self.words()}")
        self.nobody_is_left(TIMEOUT_S + LEAVING_S)

    def a_cut_link_ends_both_sides(self):
        train = self.begin()
        self.lab.cut(1, True)
        self.ends(train, TIMEOUT_S * 4 + 10, 3)
        self.expect(f" 1 ({self.lab.address(1)}:" in self.words(), f"nobody of the host is named: {self.words()}")
        self.nobody_is_left(TIMEOUT_S + LEAVING_S)
        self.lab.cut(1, False)

    def a_host_that_cannot_be_reached_is_named(self):
        self.lab.cut(1, True)
        train = self.start()
        self.ends(train, 30, 3)
        self.expect("it ended with exit code 255 (see " in self.words(), f"expected 255: {self.words()}")
        self.expect(f"connect to host {self.lab.address(1)} port {PORT}" in self.words(), "ssh's reason is not told")
        self.nobody_is_left(TIMEOUT_S + LEAVING_S)
        self.lab.cut(1, False)

    def go(self):
        for case in (self.a_run_has_the_bits_of_a_local_one, self.a_signal_to_the_group_ends_a_run_with_a_checkpoint,
                     self.nobody_shows_the_secret, self.nobody_outlives_a_killed_poseidon_train,
                     self.nobody_outlives_one_that_is_killed_while_it_starts_them,
                     self.a_killed_connection_ends_its_member, self.a_cut_link_ends_both_sides,
                     self.a_host_that_cannot_be_reached_is_named):
            print(case.__name__.replace("_", " "), flush=True)
            case()
        return len(self.faults)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    options = parser.parse_args()
    if why := why_not():
        print(f"skipped: {why}")
        sys.exit(SKIPPED)
    # On SIGTERM, exit normally so that the namespaces are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    with tempfile.TemporaryDirectory(prefix="poseidon-ssh-") as folder, SshLab(folder) as hosts:
        faults = Runs(hosts, options.binaries.resolve()).go()
    print(f"{faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
