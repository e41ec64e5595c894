"""Compares the weights of two runs. Reads safetensors files (docs/checkpoint-format.md) with the standard library."""
import array
import json
import math
import struct
import sys


def read(path):
    """{name: floats} of the fp32 tensors of a file."""
    tensors = {}
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        for name, entry in header.items():
            if name == "__metadata__" or entry["dtype"] != "F32":
                continue
            begin, end = entry["data_offsets"]
            file.seek(8 + size + begin)
            values = array.array("f")
            values.frombytes(file.read(end - begin))
            if sys.byteorder == "big":
                values.byteswap()
            tensors[name] = values
    return tensors


def distance(got, expected):
    """The Euclidean length of the difference, divided by that of the expected values. Infinite if a value is NaN or
    infinite."""
    if len(got) != len(expected):
        return math.inf
    difference, length = math.dist(got, expected), math.hypot(*expected)
    if not math.isfinite(difference):
        return math.inf
    return difference / length if length else (0.0 if difference == 0 else math.inf)


def distances(got, expected):
    """The distance of each tensor by name, the largest first."""
    if got.keys() != expected.keys():
        return {name: math.inf for name in got.keys() ^ expected.keys()}
    found = {name: distance(got[name], expected[name]) for name in expected}
    return dict(sorted(found.items(), key=lambda item: -item[1]))
