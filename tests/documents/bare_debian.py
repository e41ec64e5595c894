#!/usr/bin/env python3
"""Runs every command of README.md on a Debian 12 that has only its base packages, git and Python.

    sudo python3 tests/documents/bare_debian.py [--root FOLDER]

The machine's own name is 127.0.1.1, as after an installation of Debian. The package source is that of this system.
FOLDER is created once and can be reused. Without it, each call creates a new system. Exit code 77: this machine cannot
run the test; the script prints the reason.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(SOURCE / "tests" / "package"))
import bare_root  # noqa: E402

NAME = "machine1"
MOUNTED = """
mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && mount --rbind /sys "$0/sys" &&
mount -t tmpfs tmpfs "$0/tmp" && mount -t tmpfs tmpfs "$0/run" && hostname "$1" && exec chroot "$0" /bin/bash -c "$2"
"""


def make_root(root):
    if not (root / "bin" / "bash").exists():
        subprocess.run(["debootstrap", "--variant=minbase", "--include=git,python3,ca-certificates", "bookworm", root,
                        bare_root.mirror()], check=True, stdout=subprocess.DEVNULL)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {NAME}\n", encoding="ascii")
    (root / "etc/hostname").write_text(NAME + "\n", encoding="ascii")


def run(root, script):
    words = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "/bin/bash", "-c", MOUNTED, root, NAME, script]
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "TERM": "dumb",
                   **{name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}}
    return subprocess.run(words, stdin=subprocess.DEVNULL, env=environment, check=False).returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path)
    given = parser.parse_args()
    if os.geteuid() != 0:
        bare_root.skip("it needs root, for chroot and mounts")
    if not shutil.which("debootstrap"):
        bare_root.skip("there is no debootstrap")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        root = given.root or pathlib.Path(made)
        make_root(root)
        shutil.rmtree(root / "srv" / "poseidon", ignore_errors=True)
        subprocess.run(["git", "clone", "--quiet", SOURCE, root / "srv" / "poseidon"], check=True)
        sys.exit(run(root, "cd /srv/poseidon && python3 tests/documents/run_documents.py README.md"))


if __name__ == "__main__":
    main()
