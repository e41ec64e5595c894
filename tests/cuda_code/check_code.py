#!/usr/bin/env python3
"""Compares the machine code that nvcc made of the kernels for compute capability 9.0 with kernels.tsv.

  tests/cuda_code/check_code.py build/release/lib/libposeidon_cuda.so            1 where something is worse
  tests/cuda_code/check_code.py build/release/lib/libposeidon_cuda.so --write    makes the table what is found
  tests/cuda_code/check_code.py LIBRARY --beside CUOBJDUMP                       and compares with NVIDIA's own tool

No kernel may use local memory: a compiler that runs out of registers spills to it. No kernel may round to bf16 by
integer code. The loops of batch norm's backward pass must issue all loads of an iteration before they wait for one of
them. Compared with the table, a kernel may not use more registers or shared memory. It may not have fewer loads or
stores of 16 bytes, or fewer loads in flight in a loop. The figures are for one release of nvcc. With another release
the table is not used, and the exit code is 77.
"""
import argparse
import pathlib
import re
import subprocess
import sys

import kernel_code

TABLE = pathlib.Path(__file__).with_name("kernels.tsv")
LIMITS = ("registers", "shared_bytes")
COLUMNS = (*LIMITS, "wide_loads", "wide_stores", "loads_in_flight", "rounds_to_bf16")
SKIPPED = 77
# A kernel that reads the input, `tensors` gradients (one if the name has no number), and the bits of a relu.
BATCH_NORM_BACKWARD = re.compile(
    r"BatchNorm(?:GradientSums|InputGradient)Kernel<(?:Bf16|float), (?P<each>\d+)(?:, (?P<tensors>\d+))?, Of")


def release_of(version):
    return ".".join(version.split(".")[:2])


def read_table():
    first, _, *rows = TABLE.read_text(encoding="utf-8").splitlines()
    table = {}
    for row in rows:
        *numbers, name = row.split("\t")
        table[name] = dict(zip(COLUMNS, map(int, numbers)))
    return first.removeprefix("# nvcc "), table


def write_table(kernels, release):
    lines = [f"# nvcc {release}", "\t".join((*COLUMNS, "kernel"))]
    lines += ["\t".join(str(getattr(kernel, column)) for column in COLUMNS) + f"\t{name}"
              for name, kernel in kernels.items()]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


def local_memory(kernels):
    return [f"{name}: uses local memory ({kernel.frame_bytes} bytes of it, {kernel.local_accesses} accesses)"
            for name, kernel in kernels.items() if kernel.frame_bytes or kernel.local_accesses]


def integer_roundings(kernels):
    return [f"{name}: rounds to bf16 by integer code, expected the instruction F2FP"
            for name, kernel in kernels.items() if kernel.integer_roundings]


def early_waits(kernels):
    """A line for each kernel of batch norm's backward pass that uses a load before it has issued the others."""
    faults = []
    for name, kernel in kernels.items():
        if found := BATCH_NORM_BACKWARD.match(name):
            # With two rows in an iteration, nvcc 13.0 may wait for the bits of one row before the last load. With more
            # than two gradients, which are rare, nvcc limits registers and waits earlier.
            rows, tensors = 1 if int(found["each"]) > 4 else 2, int(found["tensors"] or 1)
            loads = rows * (2 + tensors) - (rows - 1)
            if tensors <= 2 and kernel.loads_in_flight < loads:
                faults.append(f"{name}: expected {loads} loads before the first wait, got {kernel.loads_in_flight}")
    return faults


def differences(kernels, table):
    """A line for each kernel that is worse than in the table, or that is missing in one of the two."""
    faults = [f"{name}: is not in the table" for name in kernels.keys() - table.keys()]
    faults += [f"{name}: is in the table, and in no source" for name in table.keys() - kernels.keys()]
    for name in kernels.keys() & table.keys():
        for column in COLUMNS:
            got, listed = getattr(kernels[name], column), table[name][column]
            if got > listed if column in LIMITS else got < listed:
                bound = "most" if column in LIMITS else "least"
                faults.append(f"{name}: {column}: expected at {bound} {listed}, got {got}")
    return sorted(faults)


def beside(library, kernels, cuobjdump):
    """Differences from the output of cuobjdump."""
    said = subprocess.run([cuobjdump, "-arch", "sm_90", "-res-usage", "-sass", library], check=True,
                          capture_output=True, text=True).stdout
    usage = {symbol: (int(registers), int(shared), int(stack)) for symbol, registers, stack, shared in re.findall(
        r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", said)}
    code = {part.split(None, 1)[0]: part for part in said.split("Function : ")[1:]}
    faults = []
    for kernel in kernels.values():
        got = (kernel.registers, kernel.shared_bytes, kernel.frame_bytes, kernel.wide_loads, kernel.wide_stores,
               kernel.local_accesses)
        sass = code[kernel.symbol]
        wide_loads, wide_stores, local = (len(re.findall(pattern, sass)) for pattern in (
            r"\bLDG\.E\S*\.128\b", r"\bSTG\.E\S*\.128\b", r"\b(?:LDL|STL)\b"))
        expected = (*usage[kernel.symbol], wide_loads, wide_stores, local)
        if got != expected:
            faults.append(f"{kernel.name}: cuobjdump has {expected}, this script {got}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--nvcc", default="13.0", help="the version that built it")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--beside", metavar="CUOBJDUMP")
    options = parser.parse_args()
    kernels = kernel_code.read_kernels(options.library)
    if not kernels:
        print("skipped: this build has no code for compute capability 9.0 (POSEIDON_CUDA_ARCHITECTURES)")
        return SKIPPED
    faults = local_memory(kernels) + integer_roundings(kernels) + early_waits(kernels)
    if options.beside:
        faults += beside(options.library, kernels, options.beside)
    if options.write:
        write_table(kernels, release_of(options.nvcc))
    release, table = read_table()
    same = release == release_of(options.nvcc)
    if same:
        faults += differences(kernels, table)
    for fault in faults:
        print(fault)
    if faults:
        print(f"where this is meant: tests/cuda_code/check_code.py {options.library} --write")
        return 1
    most = max(kernel.registers for kernel in kernels.values())
    print(f"{len(kernels)} kernels: no local memory, at most {most} registers")
    if not same:
        print(f"skipped: the table is of nvcc {release}, this build of {options.nvcc}")
    return 0 if same else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
