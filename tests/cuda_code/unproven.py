#!/usr/bin/env python3
"""Lists the kernels whose present code has run on a GPU, and those whose code has not.

  tests/cuda_code/unproven.py LIBRARY             lists those that have not
  tests/cuda_code/unproven.py LIBRARY --check     1 where docs/gpu.md states otherwise
  tests/cuda_code/unproven.py LIBRARY --write     makes docs/gpu.md state it
  tests/cuda_code/unproven.py LIBRARY --codes     the hash of each kernel's code, for records

docs/gpu-proofs.json is a list of objects, one for each kernel that ran on a GPU:

  {"code": "the hash of its code", "kernel": "its name", "by": "the command", "gpu": "NVIDIA H100 80GB HBM3",
   "driver": "580.95", "date": "2026-11-23", "result": "passed"}

A kernel is proven if a record with its hash has the result "passed". The hash is that of the code for compute
capability 9.0. If the source changes or nvcc makes other code, the kernel is unproven again.
"""
import argparse
import json
import pathlib
import sys

import kernel_code

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
RECORD, PAGE = DOCS / "gpu-proofs.json", DOCS / "gpu.md"
KEYS = {"code", "kernel", "by", "gpu", "driver", "date", "result"}
BEGIN, END = "<!-- what is proven, by tests/cuda_code/unproven.py -->\n", "<!-- to here -->\n"
SKIPPED = 77


def read_record(text):
    record = json.loads(text)
    for entry in record:
        if set(entry) != KEYS:
            sys.exit(f"{RECORD}: expected the keys {sorted(KEYS)}, got {sorted(entry)}")
        if entry["result"] not in ("passed", "failed"):
            sys.exit(f"{RECORD}: result: expected \"passed\" or \"failed\", got \"{entry['result']}\"")
    return record


def unproven(kernels, record):
    passed = {entry["code"] for entry in record if entry["result"] == "passed"}
    passed -= {entry["code"] for entry in record if entry["result"] == "failed"}
    return [name for name, kernel in kernels.items() if kernel.code not in passed]


def statement(kernels, record):
    if not record:
        return "Nothing has run on a GPU so far: no kernel, no convolution or product of a library, no job.\n"
    left = unproven(kernels, record)
    gpus = ", ".join(sorted({entry["gpu"] for entry in record if entry["result"] == "passed"}))
    return (f"Of {len(kernels)} kernels {len(kernels) - len(left)} have run on a GPU ({gpus}) as the code that they are "
            f"now, and passed; {len(left)} have not.\n")


def parts_of(page):
    before, _, rest = page.partition(BEGIN)
    stated, _, after = rest.partition(END)
    return before, stated, after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    action = parser.add_mutually_exclusive_group()
    for flag in ("--check", "--write", "--codes"):
        action.add_argument(flag, action="store_true")
    options = parser.parse_args()
    kernels, record = kernel_code.read_kernels(options.library), read_record(RECORD.read_text(encoding="utf-8"))
    if not kernels:
        print("skipped: this build has no code for compute capability 9.0 (POSEIDON_CUDA_ARCHITECTURES)")
        return SKIPPED
    if options.codes:
        for name, kernel in kernels.items():
            print(f"{kernel.code}  {name}")
        return 0
    expected = statement(kernels, record)
    before, stated, after = parts_of(PAGE.read_text(encoding="utf-8"))
    if options.write:
        PAGE.write_text(before + BEGIN + expected + END + after, encoding="utf-8")
    elif options.check and stated != expected:
        print(f"{PAGE}: expected: {expected}got: {stated}so: tests/cuda_code/unproven.py {options.library} --write")
        return 1
    left = unproven(kernels, record)
    print(f"{len(left)} of {len(kernels)} kernels are unproven on a GPU{':' if left else ''}")
    for name in left:
        print(f"  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
