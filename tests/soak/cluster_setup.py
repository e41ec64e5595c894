#!/usr/bin/env python3
"""How jobs on several machines start, and the messages for a wrong set-up of names, ports or addresses.

    sudo python3 tests/soak/cluster_setup.py --binaries build/release/bin

Machines are network namespaces with /etc/hosts as in Debian: there, a machine's own name is 127.0.1.1. The script
needs root, ip, tc and nft. If one is missing, it prints which one and exits with code 77.
"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "bench" / "netlab")]
import lab  # noqa: E402
import process_rounds  # noqa: E402

SKIPPED = 77
PREFIX = "psdu"
NAMES = ["node1", "node2", "head"]
BEGINS_S = 60  # a busy machine starts slowly
AS_HOST = ["unshare", "--uts", "--mount", "sh", "-c",
           'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"']


def why_not():
    """The reason why this script cannot run here; "" if it can."""
    if os.geteuid() != 0:
        return "it needs root, for network namespaces"
    missing = [name for name in ("ip", "tc", "nft", "unshare") if not shutil.which(name)]
    return f"there is no {', no '.join(missing)}" if missing else ""


class NamedLab(lab.Lab):
    """Machines that know each other by name. Each machine's own name is 127.0.1.1 on it."""

    def __init__(self, folder):
        super().__init__(hosts=len(NAMES) - 1, rate_mbit=0, prefix=PREFIX)
        self.folder = pathlib.Path(folder)
        for name in NAMES:
            known = ["127.0.0.1 localhost", f"127.0.1.1 {name}"]
            known += [f"{self.address(i)} {other}" for i, other in enumerate(NAMES) if other != name]
            (self.folder / f"hosts-{name}").write_text("\n".join(known) + "\n", encoding="ascii")

    def inside(self, host, words):
        name = NAMES[host]
        return super().inside(host, [*AS_HOST, name, self.folder / f"hosts-{name}", *words])

    def close_all_ports_but(self, host, ports):
        """Sets a firewall that silently drops connections from other machines to any other port."""
        rules = ["type filter hook input priority 0; policy drop", "iif lo accept",
                 "ct state established,related accept", f"tcp dport {{ {', '.join(map(str, ports))} }} accept"]
        table = "\n".join(["table inet firewall {", "chain input {", *rules, "}", "}"])
        lab.command("ip", "netns", "exec", f"{self.prefix}{host}", "nft", table)

    def open_all_ports(self):
        for host in range(len(NAMES)):
            lab.command("ip", "netns", "exec", f"{self.prefix}{host}", "nft", "flush ruleset")


class Setups:
    """Jobs with a good or a wrong set-up. Collects faults."""

    def __init__(self, machines, binaries):
        self.lab, self.binaries, self.folder = machines, binaries, machines.folder
        self.count, self.faults = 0, []
        (self.folder / "tiny_network.json").write_text(json.dumps(process_rounds.NETWORK))
        (self.folder / "job.json").write_text(json.dumps(process_rounds.JOB))
        secret = self.folder / "secret"
        secret.write_text("0123456789abcdef0123456789abcdef\n")
        secret.chmod(0o600)

    def expect(self, holds, what):
        if not holds:
            self.faults.append(what)
            print(f"  WRONG: {what}", flush=True)

    def start(self, host, name, words):
        said = self.folder / f"said-{self.count}-{name}"
        with open(said, "wb") as log:
            process = self.lab.start(host, [self.binaries / words[0], *words[1:], "--secret-file",
                                            self.folder / "secret"], stdout=log, stderr=log, start_new_session=True)
        process.words = lambda: process_rounds.read(said)
        return process

    def train(self, listen):
        self.count += 1
        return self.start(self.lab.head, "head", ["poseidon-train", self.folder / "job.json", "--workers", 2,
                                                  "--servers", 2, "--external", "--listen", listen,
                                                  "--output", self.folder / f"run-{self.count}",
                                                  "--set", "train.steps=20", "--set", "cluster.timeout_s=3"])

    def daemon(self, host, *more, listen="0.0.0.0"):
        return self.start(host, NAMES[host], [
            "poseidon-worker", "--coordinator", "head:7000", "--listen", f"{listen}:7001", "--server-listen",
            f"{listen}:7002", "--threads", 1, "--once", *more])

    def wait(self, process, code):
        try:
            process.wait(BEGINS_S)
        except subprocess.TimeoutExpired:
            pass
        self.expect(process.poll() == code, f"expected exit code {code}, got {process.poll()}: {process.words()}")

    def fails(self, daemons, says):
        """Expects that a job with these daemons exits with code 3 before its first step, and prints `says`."""
        train = self.train("0.0.0.0:7000")
        started = [self.daemon(host, *more) for host, more in enumerate(daemons)]
        self.wait(train, 3)
        self.expect(says in train.words(), f"expected \"{says}\", got: {train.words()}")
        self.expect("begin with step" not in train.words(), f"it trained: {train.words()}")
        print(f"  {train.words().strip().splitlines()[-1]}", flush=True)
        self.end(started)

    def end(self, processes):
        for process in processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # ---- test cases

    def the_documents_commands_work_where_a_machines_own_name_is_loopback(self):
        for listen in ("head:7000", "0.0.0.0:7000"):
            train = self.train(listen)
            daemons = [self.daemon(host, "--advertise", f"{NAMES[host]}:7001") for host in range(2)]
            self.wait(train, 0)
            for daemon in daemons:
                self.wait(daemon, 0)
            summary = json.loads((self.folder / f"run-{self.count}" / "summary.json").read_text())
            addresses = sorted(worker["address"] for worker in summary["computed"])
            self.expect(addresses == ["node1:7001", "node2:7001"] and summary["workers"] == 2,
                        f"the workers that computed are {summary['computed']}")

    def the_documents_commands_work_behind_firewalls_that_open_the_documents_ports(self):
        self.lab.close_all_ports_but(self.lab.head, [7000])
        for host in range(2):
            self.lab.close_all_ports_but(host, [7001, 7002])
        train = self.train("0.0.0.0:7000")
        daemons = [self.daemon(host, "--advertise", f"{NAMES[host]}:7001") for host in range(2)]
        for process in (train, *daemons):
            self.wait(process, 0)

    def a_port_that_a_firewall_drops_is_named(self):
        self.lab.close_all_ports_but(1, [7001])
        self.fails([("--advertise", "node1:7001"), ("--advertise", "node2:7001")],
                   " at node2:7002: no answer within 5 s; open port 7002 on node2")

    def a_node_may_listen_at_its_own_name(self):
        train = self.train("head:7000")
        daemons = [self.daemon(host, listen=NAMES[host]) for host in range(2)]
        self.wait(train, 0)
        self.end(daemons)

    def a_port_that_nobody_opens_is_named(self):
        self.fails([("--advertise", "node1:7001"),
                    ("--advertise", "node2:7001", "--server-advertise", "node2:7009")],
                   " at node2:7009: connection refused; open port 7009 on node2")

    def a_name_that_nobody_knows_is_named(self):
        self.fails([("--advertise", "node1:7001"), ("--advertise", "nowhere.invalid:7001")],
                   "nowhere.invalid:7002: its name cannot be resolved")

    def a_name_that_is_loopback_for_the_caller_is_named(self):
        self.fails([("--advertise", "node1:7001"),
                    ("--advertise", "node2:7001", "--server-advertise", "node1:7010")],
                   ": its name resolves to loopback here (127.0.1.1): connection refused; open port 7010 on node1")

    def a_second_node_at_an_address_is_refused(self):
        train = self.train("0.0.0.0:7000")
        first = self.daemon(0, "--advertise", "node1:7001")
        parts = ("worker 0 joined", "server 0 joined")  # in any order
        process_rounds.wait_until(BEGINS_S, lambda: all(part in train.words() for part in parts))
        second = self.daemon(1, "--advertise", "node1:7001")
        self.wait(second, 2)
        for process in (second, train):
            self.expect("node1:7001 is already the address of worker 0: set a different --advertise on each node"
                        in process.words(), f"the address is not named: {process.words()}")
        self.end([train, first])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    binaries = parser.parse_args().binaries.resolve()
    if reason := why_not():
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as folder, NamedLab(folder) as machines:
        setups = Setups(machines, binaries)
        for name in [name for name in vars(Setups) if name.startswith(("the_", "a_"))]:
            print(name.replace("_", " "), flush=True)
            getattr(setups, name)()
            machines.kill()
            machines.open_all_ports()
    sys.exit("\n".join(setups.faults) if setups.faults else 0)


if __name__ == "__main__":
    main()
