#!/usr/bin/env python3
"""Tests of the checks of kernels: they must find kernels that are worse than allowed."""
import dataclasses
import pathlib
import struct
import sys
import tempfile

import check_code
import kernel_code
import unproven

KERNEL = kernel_code.Kernel(name="K<float>", symbol="k", registers=32, shared_bytes=64, frame_bytes=0, local_accesses=0,
                            wide_loads=2, wide_stores=1, code="aa")
ROW = {"registers": 32, "shared_bytes": 64, "wide_loads": 2, "wide_stores": 1}
RECORD = {"code": "aa", "kernel": "K<float>", "by": "a test", "gpu": "H100", "driver": "1", "date": "today",
          "result": "passed"}


def differences(**changed):
    return check_code.differences({"K<float>": dataclasses.replace(KERNEL, **changed)}, {"K<float>": ROW})


def expect(got, expected):
    if got != expected:
        sys.exit(f"expected {expected}, got {got}")


def table_is_held():
    expect(differences(), [])
    expect(differences(registers=31, shared_bytes=0, wide_loads=3), [])
    expect(differences(registers=33), ["K<float>: registers: expected at most 32, got 33"])
    expect(differences(wide_stores=0), ["K<float>: wide_stores: expected at least 1, got 0"])
    expect(check_code.differences({}, {"K<float>": ROW}), ["K<float>: is in the table, and in no source"])
    expect(check_code.differences({"K<float>": KERNEL}, {}), ["K<float>: is not in the table"])


def local_memory_is_found():
    expect(check_code.local_memory({"K<float>": KERNEL}), [])
    spills = dataclasses.replace(KERNEL, frame_bytes=16, local_accesses=3)
    expect(check_code.local_memory({"K<float>": spills}),
           ["K<float>: uses local memory (16 bytes of it, 3 accesses)"])


def instructions_are_read():
    code = struct.pack("<QQ", 0x0000000402047981, 0x000EA8000C1E1D00)  # LDG.E.128 R4, [R2.64]
    code += struct.pack("<QQ", 0x0000000402007981, 0x000EA2000C1E1900)  # LDG.E R0, [R2.64]
    code += struct.pack("<QQ", 0x0000000001007983, 0x000EA20000100800)  # LDL R0, [R1]
    found = list(kernel_code.instructions(code))
    expect(kernel_code.count(found, kernel_code.LOAD_GLOBAL), 2)
    expect(kernel_code.count(found, kernel_code.LOAD_GLOBAL, kernel_code.WIDE), 1)
    expect(kernel_code.count(found, kernel_code.LOAD_LOCAL), 1)
    expect(kernel_code.short_name("void poseidon::cuda::run_kernel<poseidon::layers::cuda::Map<float, "
                                  "poseidon::layers::cuda::(anonymous namespace)::F> >(poseidon::X)"), "Map<float, F>")


def a_build_without_gpu_code_is_refused():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "plain"
        file.write_bytes(pathlib.Path("/proc/self/exe").read_bytes())
        try:
            kernel_code.read_kernels(file)
        except SystemExit as refused:
            expect(str(refused), f"{file}: expected GPU code, found none")
        else:
            sys.exit("expected a refusal")


def proofs_count_for_their_code_only():
    kernels = {"K<float>": KERNEL, "L": dataclasses.replace(KERNEL, name="L", code="bb")}
    expect(unproven.unproven(kernels, [RECORD]), ["L"])
    expect(unproven.unproven(kernels, [RECORD, {**RECORD, "result": "failed"}]), ["K<float>", "L"])
    expect(unproven.statement(kernels, [RECORD]),
           "Of 2 kernels 1 have run on a GPU (H100) as the code that they are now, and passed; 1 have not.\n")
    expect(unproven.statement(kernels, []).startswith("Nothing has run on a GPU"), True)


if __name__ == "__main__":
    for test in (table_is_held, local_memory_is_found, instructions_are_read, a_build_without_gpu_code_is_refused,
                 proofs_count_for_their_code_only):
        test()
