"""Hosts as network namespaces on one machine, each with a link of a given rate in both directions.

    with Lab(hosts=2, rate_mbit=200) as lab:
        process = lab.start(0, ["some", "command"])

Every host has an address, lab.address(i). Each host has its own core while there are enough cores. One more host, the
head (lab.head), has a link without limit. It stands for the user's machine. Needs root, `ip` and `tc`.
"""
import os
import shutil
import subprocess
import sys

PREFIX = "psdn"
SWITCH = "switch"


def need_root():
    if os.geteuid() != 0:
        sys.exit("netlab: network namespaces need root; run it with sudo")
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            sys.exit(f"netlab: {program} is missing; install iproute2")


def command(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stdout.strip()}")


class Lab:
    def __init__(self, hosts, rate_mbit, congestion="", prefix=""):
        """With a rate of 0, links have no limit. Labs with different prefixes are isolated and may use equal
        addresses."""
        need_root()
        self.prefix = prefix or PREFIX  # of the names of namespaces and links
        self.congestion = congestion  # TCP congestion control on all hosts; "": the system's
        self.hosts = hosts
        self.rate_mbit = rate_mbit
        self.head = hosts
        self.processes = []

    def address(self, host):
        return f"10.77.0.{host + 1}"

    def __enter__(self):
        self.remove()
        # The bridge is in a separate namespace, so that the machine's firewall rules do not apply to its traffic.
        switch, bridge = ["-n", f"{self.prefix}{SWITCH}"], f"{self.prefix}br"
        command("ip", "netns", "add", f"{self.prefix}{SWITCH}")
        command("ip", *switch, "link", "add", bridge, "type", "bridge")
        command("ip", *switch, "link", "set", bridge, "up")
        self.without_firewall(f"{self.prefix}{SWITCH}")
        for host in range(self.hosts + 1):
            space, inside, outside = f"{self.prefix}{host}", f"{self.prefix}e{host}", f"{self.prefix}b{host}"
            command("ip", "netns", "add", space)
            command("ip", *switch, "link", "add", outside, "type", "veth", "peer", "name", inside, "netns", space)
            command("ip", *switch, "link", "set", outside, "master", bridge, "up")
            for words in (("addr", "add", f"{self.address(host)}/24", "dev", inside), ("link", "set", inside, "up"),
                          ("link", "set", "lo", "up")):
                command("ip", "-n", space, *words)
            if self.congestion:
                self.control_congestion(space)
            if host != self.head and self.rate_mbit:
                self.shape(["-n", space], inside)
                self.shape(switch, outside)
        return self

    def without_firewall(self, space):
        for rules in ("iptables", "ip6tables", "arptables"):  # missing where the kernel filters no bridges
            subprocess.run(["ip", "netns", "exec", space, "sysctl", "-qw", f"net.bridge.bridge-nf-call-{rules}=0"],
                           stderr=subprocess.DEVNULL)

    def control_congestion(self, space):
        try:
            command("ip", "netns", "exec", space, "sysctl", "-qw", f"net.ipv4.tcp_congestion_control={self.congestion}")
        except RuntimeError:
            self.remove()
            with open("/proc/sys/net/ipv4/tcp_allowed_congestion_control", encoding="ascii") as allowed:
                sys.exit(f"netlab: --congestion {self.congestion}: expected one that network namespaces may use: "
                         f"{allowed.read().strip()}")

    def shape(self, where, device):
        # A token bucket of 1/250 s, and a queue of at most 20 ms, as in a switch.
        burst = max(32 * 1024, int(self.rate_mbit * 1e6 / 8 / 250))
        command("tc", *where, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{self.rate_mbit}mbit",
                "burst", str(burst), "latency", "20ms")

    def __exit__(self, *_):
        self.kill()
        self.remove()

    def kill(self):
        """Kills all started processes that still run."""
        running = [process for process in self.processes if process.poll() is None]
        for process in running:
            process.kill()
        for process in running:
            process.wait()
        self.processes.clear()

    def remove(self):
        for name in [SWITCH, *range(64)]:
            if os.path.exists(f"/run/netns/{self.prefix}{name}"):
                subprocess.run(["ip", "netns", "del", f"{self.prefix}{name}"], stderr=subprocess.DEVNULL)

    def cut(self, host, is_cut):
        """Sets the link of a host down at the switch, or up again. While it is down, packets are lost silently."""
        state = "down" if is_cut else "up"
        command("ip", "-n", f"{self.prefix}{SWITCH}", "link", "set", f"{self.prefix}b{host}", state)

    def inside(self, host, words):
        """The command that runs `words` on a host."""
        pinned = [] if host == self.head else ["taskset", "-c", str(host % os.cpu_count())]
        return ["ip", "netns", "exec", f"{self.prefix}{host}", *pinned, *map(str, words)]

    def start(self, host, words, **more):
        process = subprocess.Popen(self.inside(host, words), **more)
        self.processes.append(process)
        return process

    def run_on_all(self, words_of, hosts=None):
        """Runs one command on every host at the same time. Returns the standard outputs."""
        started = [self.start(host, words_of(host), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                   for host in (hosts or range(self.hosts))]
        outputs = []
        for process in started:
            out, err = process.communicate()
            if process.returncode != 0:
                raise RuntimeError(f"{' '.join(process.args)}: exit code {process.returncode}\n{err[-1500:]}")
            outputs.append(out)
        return outputs
