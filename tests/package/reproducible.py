"""Builds the archive again in another folder without a compiler cache, and compares it byte by byte.

    python3 tests/package/reproducible.py --archive build/release/poseidon-0.1.0-linux-x86_64.tar.xz

The second archive is built from the last commit, without uncommitted changes, with the same options of CMake. This
takes as long as a full build.
"""
import argparse
import filecmp
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


# Options of CMake that change the archive. With mutations, fewer sources of comm are compiled together.
OPTIONS = "POSEIDON_CUDA_ARCHITECTURES", "POSEIDON_MUTATIONS"


def options_of(build):
    cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
    return [f"-D{name}=" + re.search(rf"^{name}:\w+=(.*)$", cache, re.M)[1] for name in OPTIONS]


def members_of(archive):
    with tarfile.open(archive) as members:
        return {member.name: members.extractfile(member).read() if member.isfile() else member.linkname
                for member in members}


def differing_members(archive, again):
    """Names of files that differ or that are missing in one archive."""
    one, other = members_of(archive), members_of(again)
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=pathlib.Path, required=True)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = pathlib.Path(folder) / "elsewhere"
        environment = dict(os.environ, CCACHE_DISABLE="1")
        for command in (["git", "clone", "--quiet", ROOT, clone],
                        ["cmake", "--preset", "release", *options_of(options.archive.parent)],
                        ["cmake", "--build", "--preset", "release", "--target", "package"]):
            done = subprocess.run(command, cwd=clone if clone.exists() else ROOT, env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                sys.exit(f"{command}: exit code {done.returncode}\n{done.stdout[-3000:]}")
        again = clone / "build" / "release" / options.archive.name
        if not filecmp.cmp(options.archive, again, shallow=False):
            sys.exit(f"{again} differs from {options.archive}: {differing_members(options.archive, again)}")
    print(f"passed: {options.archive.name} comes to the same {options.archive.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
