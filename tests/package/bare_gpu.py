"""Tests the archive on a Debian 12 with Python's packages of CUDA and cuDNN, but without NVIDIA's driver.

    sudo python3 tests/package/bare_gpu.py --archive build/release/poseidon-0.1.0-linux-x86_64.tar.xz
        [--root FOLDER] [--packages FOLDER]

The folder of --root is created once and can be reused. The folder of --packages contains the package `nvidia`. Without
it, pip downloads the packages (1 GB). Exit code 77: this machine cannot run the test, or the archive has no GPU
library; the script prints the reason.
"""
import argparse
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

from bare_root import Bare, expect, make_root, needed_for_a_root, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ("nvidia-cudnn-cu13", "nvidia-cublas==13.*", "nvidia-cuda-nvrtc==13.*")
PYTHON_FOLDER = "/usr/local/lib/python3.11/dist-packages"  # of Debian 12
# Sets LD_LIBRARY_PATH as docs/gpu.md describes.
FIND_LIBRARIES = ("""export LD_LIBRARY_PATH=$(python3 -c 'import glob, nvidia; print(*(f for p in nvidia.__path__ """
                  """for f in glob.glob(p+"/*/lib")), sep=":")'); """)
NO_DRIVER = "this machine has no NVIDIA driver"
# Programs that use a GPU, and those that use none.
ON_A_GPU = ("poseidon-train configs/lenet-digits.json --device cuda --output /tmp/run",
            "poseidon-worker --device cuda --coordinator 127.0.0.1:40000 --once",
            "bench_gpu --small", "bench_step configs/networks/lenet.json 8 fp32", "test_layers_gpu")
WITHOUT_GPU = ("poseidon-server", "poseidon-data", "poseidon-import", "poseidon-export")


def install_packages(folder):
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *PACKAGES]
    done = subprocess.run(install, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        skip(f"pip cannot install {', '.join(PACKAGES)}: {done.stdout.strip().splitlines()[-1]}")


def one_line(said, word):
    return len(said.splitlines()) == 1 and word in said


def try_programs(bare):
    """Each program starts. Those that use a GPU say in one line that there is none."""
    for program in WITHOUT_GPU:
        expect(f"{program} starts", program in bare.run(f"{program} --version"))
    told = bare.run("poseidon-train configs/lenet-digits.json --device cuda --output /tmp/run", expected=2)
    expect("all missing libraries of CUDA are named",
           all(name in told for name in ("libcudnn.so.9", "libcublasLt.so.13", "libnvrtc.so.13")), told)
    for program in ON_A_GPU:
        told = bare.run(FIND_LIBRARIES + program, expected=2)
        expect(f"{program.split()[0]} tells in one line that there is no GPU", one_line(told, NO_DRIVER), told)
    told = bare.run(FIND_LIBRARIES + "poseidon-train --devices")
    expect("the list of devices tells it too", NO_DRIVER in told, told)


def try_first_light(bare, archive):
    """The script stops where no GPU is found. Its dry run passes in three calls that merge their results."""
    test = pathlib.PurePath("opt/tests/documents/first_light_dry_run.py")
    (bare.root / test).parent.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "documents" / test.name, bare.root / test)
    shutil.copy(archive, bare.root / "opt" / archive.name)
    told = bare.run(f"python3 /{test} --archive /opt/{archive.name}")
    expect("a dry run of first_light passes in three calls", told.startswith("passed: "), told)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archive", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path)
    parser.add_argument("--packages", type=pathlib.Path)
    options = parser.parse_args()
    needed_for_a_root()
    with tarfile.open(options.archive) as archive:
        if not any(name.endswith("/lib/libposeidon_cuda.so") for name in archive.getnames()):
            skip("the archive has no GPU library")
    with tempfile.TemporaryDirectory() as folder:
        packages = options.packages or pathlib.Path(folder) / "packages"
        if not options.packages:
            install_packages(packages)
        root = (options.root or pathlib.Path(folder) / "root").resolve()
        make_root(root, packages=("python3",))
        bare = Bare(root, options.archive.resolve(), {PYTHON_FOLDER: packages.resolve()})
        try_programs(bare)
        try_first_light(bare, options.archive.resolve())


if __name__ == "__main__":
    main()
