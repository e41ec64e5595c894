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
                            wide_loads=2, wide_stores=1, loads_in_flight=2, rounds_to_bf16=1, integer_roundings=0,
                            code="aa")
ROW = {"registers": 32, "shared_bytes": 64, "wide_loads": 2, "wide_stores": 1, "loads_in_flight": 2,
       "rounds_to_bf16": 1}
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
    expect(differences(loads_in_flight=1), ["K<float>: loads_in_flight: expected at least 2, got 1"])
    expect(differences(rounds_to_bf16=0), ["K<float>: rounds_to_bf16: expected at least 1, got 0"])
    expect(check_code.differences({}, {"K<float>": ROW}), ["K<float>: is in the table, and in no source"])
    expect(check_code.differences({"K<float>": KERNEL}, {}), ["K<float>: is not in the table"])


def local_memory_is_found():
    expect(check_code.local_memory({"K<float>": KERNEL}), [])
    spills = dataclasses.replace(KERNEL, frame_bytes=16, local_accesses=3)
    expect(check_code.local_memory({"K<float>": spills}),
           ["K<float>: uses local memory (16 bytes of it, 3 accesses)"])


def integer_rounding_is_found():
    expect(check_code.integer_roundings({"K<float>": KERNEL}), [])
    expect(check_code.integer_roundings({"K": dataclasses.replace(KERNEL, integer_roundings=8)}),
           ["K: rounds to bf16 by integer code, expected the instruction F2FP"])


def early_waits_are_found():
    for name, loads in (("BatchNormGradientSumsKernel<Bf16, 8, 1, OfBatchNorm>", 3),
                        ("BatchNormGradientSumsKernel<Bf16, 8, 2, OfBatchNorm>", 4),
                        ("BatchNormGradientSumsKernel<float, 4, 2, OfBatchNorm>", 7),
                        ("BatchNormInputGradientKernel<Bf16, 8, OfMvn>", 3),
                        ("BatchNormInputGradientKernel<float, 4, OfMvn>", 5)):
        expect(check_code.early_waits({name: dataclasses.replace(KERNEL, loads_in_flight=loads)}), [])
        expect(check_code.early_waits({name: dataclasses.replace(KERNEL, loads_in_flight=loads - 1)}),
               [f"{name}: expected {loads} loads before the first wait, got {loads - 1}"])


LOAD_16 = struct.pack("<QQ", 0x0000000402047981, 0x000EA8000C1E1D00)  # LDG.E.128 R4, [R2.64], sets barrier 2
LOAD_4 = struct.pack("<QQ", 0x0000000402007981, 0x000EA2000C1E1900)  # LDG.E R0, [R2.64], sets barrier 2
USE = struct.pack("<QQ", 0x0000000104047221, 0x004FC80000000000)  # FADD R4, R4, R1, awaits barrier 2


def branch(instructions):
    """Encodes @!P0 BRA to the instruction that is `instructions` before the next one."""
    words = (-instructions * kernel_code.INSTRUCTION_BYTES // 4) % (1 << 40)
    return struct.pack("<QQ", (words >> 8) % (1 << 30) << 34 | (words & 0xFF) << 16 | 0x8947, 0x000FEA000383FFFF)


def loads_in_flight_are_counted():
    def most(code):
        return kernel_code.loads_in_flight(kernel_code.instructions(code))
    expect(most(LOAD_16 + LOAD_16 + USE), 0)
    expect(most(LOAD_16 + LOAD_16 + USE + branch(4)), 2)
    expect(most(LOAD_16 + USE + LOAD_16 + USE + branch(5)), 1)
    expect(most(LOAD_16 + LOAD_16 + LOAD_4 + USE + branch(3)), 1)  # two loads are before the loop


def instructions_are_read():
    code = LOAD_16 + LOAD_4
    code += struct.pack("<QQ", 0x0000000001007983, 0x000EA20000100800)  # LDL R0, [R1]
    found = kernel_code.instructions(code)
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
    for test in (table_is_held, local_memory_is_found, integer_rounding_is_found, early_waits_are_found,
                 loads_in_flight_are_counted, instructions_are_read, a_build_without_gpu_code_is_refused,
                 proofs_count_for_their_code_only):
        test()
