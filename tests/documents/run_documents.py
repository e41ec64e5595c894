#!/usr/bin/env python3
"""Runs every command of the documents, in order and as written, in a fresh clone.

    run_documents.py [DOCUMENT...]     default: README.md, docs/*.md, bench/README.md

The clone is build/documents/clone. It stays there, with all files that the commands made. A command is one or more
lines of a block fenced as sh. The script runs all documents in order, like a single reader: files and exported
variables of a command remain for the next one. fixtures.py has the files that documents only name, the options that
shorten long commands, and the commands that do not run.

A command whose comment says "on node1 and node2" runs on those machines. All other commands of its block run on head.
Machines are network namespaces, which need root. Without root, such blocks are skipped and reported. Daemons run to the
end of their block. Then they get SIGTERM and must exit with 0.
"""
import argparse
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import commands
import fixtures
import machines

SOURCE = pathlib.Path(__file__).resolve().parents[2]
FOLDER = SOURCE / "build" / "documents"  # emptied at the start
PROGRAMS = ["poseidon-train", "poseidon-worker", "poseidon-server", "poseidon-data", "poseidon-import",
            "poseidon-export", "poseidon-read-lmdb", "poseidon-read-leveldb", "poseidon-read-hdf5", "poseidon-export-hdf5"]
LIMIT_S = 900  # per command; the longest one is a build with an empty compiler cache
LEAVING_S = 15  # for a daemon after SIGTERM
GRACE_S = 1  # for a command to end after a background command has failed
SHOWN_LINES = 15  # of the output of a failed command

# Runs one command in a shell with the state of the previous one. If {keep}, stores its variables and working directory.
SCRIPT = """
trap : TERM
set -a
. "{state}"
{text}
status=$?
[ -z "$!" ] || {{ wait "$!"; status=$?; }}
{keep} && {{ export -p; printf 'cd %q\\n' "$PWD"; }} >"{state}"
exit "$status"
"""


class Running:
    """A running command on one host. Its shell survives a signal to the process group, and reports the exit code."""

    def __init__(self, command, words, folder, environment):
        self.command = command
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, cwd=folder, env=environment, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def code_within(self, seconds):
        """The exit code; None if the command took longer and was killed."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self):
        """Kills the process group, also child processes of a command that has ended. Repeated calls have no effect."""
        if not self.output.closed:
            self.signal(signal.SIGKILL)
            self.process.wait()

    def has_failed(self):
        return self.process.poll() not in (None, 0)

    def last_lines(self):
        with self.output as output:
            output.seek(0)
            return output.read().decode(errors="replace").splitlines()[-SHOWN_LINES:]


@dataclasses.dataclass
class Counts:
    run: int = 0
    left_out: int = 0


class Reader:
    """Reads the documents and runs their commands, like a user."""

    def __init__(self, folder, tables, hosts=None, tell=print):
        self.folder, self.tables, self.hosts, self.tell = folder, tables, hosts, tell
        self.state = folder.parent / "state"
        self.state.write_text("", encoding="ascii")
        self.environment = environment_of_reader(folder.parent)
        self.counts, self.faults = Counts(), []
        self.started = []  # commands of the present block

    def read(self, path):
        for block in commands.read(path, self.folder):
            self.run_block(block)

    def run_block(self, block):
        on_hosts = any(command.names_hosts for command in block)
        if on_hosts and self.hosts is None:
            for command in block:
                self.leave_out(command, "there are no network namespaces")
            return
        try:
            for command in block:
                if self.may_run(command):
                    self.run(command, command.hosts or (["head"] if on_hosts else [None]))
            self.end_background()
        finally:
            for running in self.started:
                running.kill()
            self.started.clear()

    def may_run(self, command):
        why_not = self.tables.why_not(command)
        if why_not:
            self.leave_out(command, why_not)
        elif command.placeholders:
            self.fault(command, f"nobody can type {', '.join(command.placeholders)}")
        elif unknown := [host for host in command.hosts if host not in machines.NAMES]:
            self.fault(command, f"there is no machine {', '.join(unknown)}")
        else:
            return True
        return False

    def run(self, command, hosts):
        self.tables.make_names(command, self.folder)
        text, more = self.tables.shortened(command)
        began = time.monotonic()
        started = [self.start(command, text, host) for host in hosts]
        if not command.goes_to_background:
            for running in started:
                self.wait_for(running)
        self.counts.run += 1
        notes = [f"{time.monotonic() - began:.1f} s", command.hosts and f"on {', '.join(command.hosts)}",
                 more and f"with {more}", self.tables.stand_in(command)]
        self.tell(f"{command.place}: {command.words}  [{'; '.join(filter(None, notes))}]")

    def start(self, command, text, host):
        keep = "false" if command.goes_to_background else "true"
        words = ["bash", "-c", SCRIPT.format(state=self.state, text=text, keep=keep)]
        words = self.hosts.on(host, words) if host else words
        self.started.append(Running(command, words, self.folder, self.environment))
        return self.started[-1]

    @property
    def background(self):
        return [running for running in self.started if running.command.goes_to_background]

    def wait_for(self, running):
        """Waits until the command ends, or until a background command fails, which it might wait for."""
        end = time.monotonic() + LIMIT_S
        while running.process.poll() is None and time.monotonic() < end:
            if any(other.has_failed() for other in self.background):
                break
            time.sleep(0.02)
        self.judge(running, running.code_within(GRACE_S))

    def end_background(self):
        """Waits for background commands that end by themselves. Then stops the daemons."""
        for running in sorted(self.background, key=lambda one: one.command.is_daemon):
            if running.command.is_daemon:
                running.signal(signal.SIGTERM)
            self.judge(running, running.code_within(LEAVING_S if running.command.is_daemon else LIMIT_S))

    def judge(self, running, code):
        said = running.last_lines()
        if code != 0:
            self.fault(running.command, "did not end" if code is None else f"exit code {code}", said)

    def leave_out(self, command, why):
        self.counts.left_out += 1
        self.tell(f"{command.place}: {command.words}  [not run: {why}]")

    def fault(self, command, what, lines=()):
        shown = [f"{command.place}: {what}: {command.words}", *(f"    {line}" for line in lines)]
        self.faults.append(f"{command.place}: {what}")
        self.tell("\n".join(shown))

    def look_for_programs(self):
        """The quick start must have built all programs that the documents use."""
        missing = [name for name in PROGRAMS if not (self.folder / "build" / "release" / "bin" / name).is_file()]
        self.faults += [f"scripts/quickstart has not built {name}" for name in missing]


def environment_of_reader(folder):
    """An environment with an empty home folder. The compiler cache and its settings are those of this user."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    old_home = pathlib.Path.home()
    environment = {"XDG_CACHE_HOME": str(old_home / ".cache"), "XDG_CONFIG_HOME": str(old_home / ".config"),
                   **os.environ, "HOME": str(home), "TERM": "dumb"}
    environment["PATH"] = f"{fixtures.SHIMS}:{environment['PATH']}"
    environment.pop("POSEIDON_DATA", None)
    return environment


def fresh_clone(folder):
    """Copies all files that git tracks, in their present state, to an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / "clone" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / name, target, follow_symlinks=False)
    return folder / "clone"


def machines_in(folder, stack):
    """The documents' machines, or None if they cannot be created."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return None
    made = machines.Machines(folder)
    try:
        return stack.enter_context(made)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        made.remove()
        return None


def all_documents(clone):
    return [clone / "README.md", *sorted(clone.glob("docs/*.md")), clone / "bench" / "README.md"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("documents", nargs="*")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    sys.stdout.reconfigure(line_buffering=True)
    began, clone = time.monotonic(), fresh_clone(FOLDER)
    with contextlib.ExitStack() as stack:
        reader = Reader(clone, fixtures.project_tables(), machines_in(FOLDER, stack))
        for path in [clone / name for name in given.documents] or all_documents(clone):
            reader.read(path)
            if path.name == "README.md" and path.parent == clone:
                reader.look_for_programs()
    if not given.documents:
        reader.faults += [f"fixtures.py: no command is like {pattern}" for pattern in reader.tables.unused()]
    print(f"\n{reader.counts.run} commands run, {reader.counts.left_out} left out, {time.monotonic() - began:.0f} s")
    sys.exit("\n".join(reader.faults) if reader.faults else 0)


if __name__ == "__main__":
    main()
