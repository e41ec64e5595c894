"""Tests the archive on a bare system: a Debian 12 made by debootstrap, from which even libstdc++ is removed.

    sudo python3 tests/package/bare_root.py --archive build/release/poseidon-0.1.0-linux-x86_64.tar.xz [--root FOLDER]

FOLDER is created once and can be reused. Each job runs in a separate mount namespace, so no mount remains. Exit code
77: this machine cannot run the test; the script prints the reason.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
MIRROR = re.compile(r"^(?:deb\s+(?:\[[^]]*\]\s*)?|URIs:\s*)(\S+debian/?)(?:\s|$)", re.MULTILINE)
LEVELS = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512vl"}
# Processors that QEMU emulates, with the highest level of each.
EMULATED = {"Haswell": "x86-64-v3", "Nehalem": "x86-64-v2"}


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def mirror():
    """The Debian mirror of this system. The new root uses it too."""
    sources = pathlib.Path("/etc/apt")
    for file in [sources / "sources.list", *sorted((sources / "sources.list.d").glob("*"))]:
        found = MIRROR.search(file.read_text(encoding="utf-8")) if file.is_file() else None
        if found:
            return found.group(1)
    return "http://deb.debian.org/debian"


def make_root(root, packages=(), without=()):
    """Makes a root with these Debian packages, without these libraries."""
    if not (root / "bin" / "sh").exists():
        include = [f"--include={','.join(packages)}"] if packages else []
        subprocess.run(["debootstrap", "--variant=minbase", *include, "bookworm", root, mirror()], check=True,
                       stdout=subprocess.DEVNULL)
    for library in without:
        for file in root.glob(f"usr/lib/x86_64-linux-gnu/{library}*"):
            file.unlink()
    shutil.rmtree(root / "opt", ignore_errors=True)
    (root / "opt").mkdir()


class Bare:
    """The unpacked archive in the root. `mounts`: folders of this system, by their folders in the root."""

    def __init__(self, root, archive, mounts=()):
        self.root, self.mounts = root, dict(mounts)
        for folder in self.mounts:
            (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
        subprocess.run(["tar", "-C", root / "opt", "-xf", archive], check=True)
        self.folder = "/" + str(next((root / "opt").iterdir()).relative_to(root))

    def run(self, script, expected=0):
        """Runs a shell script in the archive's folder. Returns its output."""
        inside = f"cd {self.folder}/share; PATH={self.folder}/bin:$PATH; {script}"
        mounts = "".join(f"mount --bind {shlex.quote(str(source))} \"$0\"{shlex.quote(folder)} && "
                         for folder, source in self.mounts.items())
        mounted = ("mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && mount -t tmpfs tmpfs \"$0/tmp\" && "
                   f"{mounts}exec chroot \"$0\" /bin/sh -c \"$1\"")
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "/bin/sh", "-c", mounted, self.root, inside],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=300, env={"PATH": os.environ["PATH"]})
        if done.returncode != expected:
            sys.exit(f"{script}\nexpected exit code {expected}, got {done.returncode}:\n{done.stdout}")
        return done.stdout


def expect(what, holds, seen=""):
    print(f"{'passed' if holds else 'FAILED'}: {what}")
    if not holds:
        sys.exit(seen)


def try_levels(bare):
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    here = [level for level, mark in LEVELS.items() if mark in flags]
    told = bare.run("poseidon-train --version")
    expect(f"the best level, {here[-1]}, is picked", f"own kernels for {here[-1]}" in told, told)
    for level in here:
        told = bare.run(f"poseidon-train configs/lenet-digits.json --isa {level} --max-steps 5 --output /tmp/run >&2 && "
                        "cat /tmp/run/plan.json")
        expect(f"{level} trains when it is forced", f"own kernels for {level}" in told, told)
    told = bare.run("poseidon-train configs/lenet-digits.json --isa x86-64-v9", expected=2)
    expect("an unknown level is refused", "x86-64-v9" in told, told)


def try_emulated(bare):
    """Emulates processors with fewer instructions: a program that needs more would end by a signal."""
    emulator = shutil.which("qemu-x86_64-static")
    if emulator is None:
        print("left out: qemu-user-static is not installed")
        return
    shutil.copy(emulator, bare.root / "opt" / "qemu")
    for processor, level in EMULATED.items():
        told = bare.run(f"/opt/qemu -cpu {processor} ../bin/poseidon-train configs/lenet-digits.json --threads 1 "
                        "--max-steps 3 --set data.test=null --output /tmp/run >&2 && cat /tmp/run/plan.json")
        expect(f"a {processor} picks {level} and trains", f"own kernels for {level}" in told, told)


def summary(printed):
    return json.loads(printed[printed.index("{"):printed.rindex("}") + 1])


def try_jobs(bare):
    job = "poseidon-train configs/lenet-digits.json --set train.steps=300 --threads 1 --json --output /tmp/run 2>/tmp/log"
    accuracy = summary(bare.run(job))["test_top1"]
    expect(f"the quick start's job comes to {accuracy:.3f} in 300 steps", accuracy > 0.9)
    told = bare.run("poseidon-train configs/lenet-digits.json --workers 4 --max-steps 20 --output /tmp/run")
    expect("four workers train", "results in /tmp/run" in told, told)
    told = bare.run("printf \"input: 'data' input_dim: [1, 1, 2, 2] layer { name: 'a' type: 'TanH' bottom: 'data' top: "
                    "'a' }\" >/tmp/n.prototxt && poseidon-import caffe --prototxt /tmp/n.prototxt /tmp/imported")
    expect("a network of Caffe's is imported", "network.json (1 layer, 0 parameters)" in told, told)
    told = bare.run("poseidon-train configs/lenet-digits.json --max-steps 5 --output /tmp/run >&2 && "
                    "poseidon-export onnx /tmp/run /tmp/lenet.onnx")
    expect("a run is exported", "outputs: ip2" in told, told)
    told = bare.run("poseidon-train nowhere.json", expected=2)
    expect("a missing file is told, with exit code 2", "nowhere.json" in told, told)


def try_databases(bare):
    """Each reader must start with its library, and report the error in a file that is no database."""
    made = "mkdir -p /tmp/db && echo MANIFEST-1 >/tmp/db/CURRENT && head -c 9000 /dev/zero >/tmp/db/data.mdb && "
    for kind, answer in (("lmdb", "/tmp/db: LMDB: "), ("leveldb", "/tmp/db: LevelDB: "),
                         ("hdf5", "/tmp/db: requires poseidon-read-hdf5, which this build lacks")):
        told = bare.run(f"{made} poseidon-data pack /tmp/db --type {kind} --output /tmp/packed", expected=2)
        expect(f"a damaged database is told: {kind}", answer in told, told)


def try_tls(bare):
    """Runs daemons and poseidon-train over TLS, with new certificates."""
    made = bare.root / "opt" / "tls"
    made.mkdir()
    make = f"""cd {made} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 \
      -keyout ca.key -out ca.pem -subj /CN=authority && openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
      -keyout node.key -out node.csr -subj /CN=node && openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key \
      -CAcreateserial -days 2 -out node.pem && chmod 600 *.key"""
    subprocess.run(make, shell=True, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    tls = "--tls-certificate /opt/tls/node.pem --tls-key /opt/tls/node.key --tls-authority /opt/tls/ca.pem"
    port = 40000 + os.getpid() % 20000
    members = "".join(f"poseidon-{kind} --coordinator 127.0.0.1:{port} --once {tls} >/tmp/{kind}{i} 2>&1 & "
                      for kind in ("worker", "server") for i in range(2))
    told = bare.run(f"{members} poseidon-train configs/lenet-digits.json --workers 2 --servers 2 --external --listen "
                    f"127.0.0.1:{port} {tls} --max-steps 20 --output /tmp/run && wait && cat /tmp/worker0")
    expect("two daemons train over TLS", "results in /tmp/run" in told and "the job is done" in told, told)


def needed_for_a_root():
    if os.geteuid() != 0:
        skip("a root to change to takes root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not installed")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path)
    options = parser.parse_args()
    needed_for_a_root()
    with tempfile.TemporaryDirectory() as folder:
        root = (options.root or pathlib.Path(folder) / "root").resolve()
        make_root(root, without=("libstdc++.so.6", "libgcc_s.so.1", "libz.so.1"))
        bare = Bare(root, options.archive.resolve())
        try_levels(bare)
        try_emulated(bare)
        try_jobs(bare)
        try_databases(bare)
        try_tls(bare)


if __name__ == "__main__":
    main()
