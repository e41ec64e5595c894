#!/usr/bin/env python3
"""Compares Poseidon's loader with Pillow: photographs per second on one core, for the same work in the same run.

    python3 bench/loader.py --program build/release/bin/bench_loader --photographs SAMPLE.tar
         [--record bench/results]

The work: decode a JPEG, crop a random box, resize it to 224x224 (bilinear with antialiasing), mirror half of the
images, normalize, and write planes of floats. The rounds of both are interleaved. Rates are per second of processor
time. The table shows medians. Needs Pillow and NumPy.
"""

import argparse
import io
import math
import random
import statistics
import subprocess
import tarfile
import time

import numpy
import PIL
from PIL import Image, features

import record

COLUMNS = [record.column("what", "loader"), record.column("rate", "samples/s", 0, spread=True),
           record.column("ratio", "times as fast as Pillow", 2, spread=True)]
ABOUT = "JPEG photographs to normalized samples of 224 x 224, on one core"
MEAN = numpy.array([123.675, 116.28, 103.53], numpy.float32)
STD = numpy.array([58.395, 57.12, 57.375], numpy.float32)


def read_photographs(path):
    with tarfile.open(path) as archive:
        names = [m for m in archive.getmembers() if m.isfile() and m.name.lower().endswith((".jpg", ".jpeg"))]
        return [archive.extractfile(member).read() for member in names]


def random_box(width, height):
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1.0)
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def prepare(encoded, draft):
    image = Image.open(io.BytesIO(encoded))
    left, top, right, bottom = random_box(*image.size)
    if draft:  # Pillow's scaled decoding, which few of its users enable
        before = image.size
        shrink = min((right - left) / 224, (bottom - top) / 224)
        if shrink >= 2:
            image.draft("RGB", (int(before[0] / shrink), int(before[1] / shrink)))
        x, y = image.size[0] / before[0], image.size[1] / before[1]
        left, top, right, bottom = left * x, top * y, right * x, bottom * y
    image = image.convert("RGB").resize((224, 224), Image.BILINEAR, box=(left, top, right, bottom))
    if random.random() < 0.5:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    pixels = (numpy.asarray(image, numpy.float32) - MEAN) / STD
    return numpy.ascontiguousarray(pixels.transpose(2, 0, 1))


def pillow_rate(photographs, seconds, draft):
    began, count = time.process_time(), 0
    while time.process_time() - began < seconds:
        prepare(photographs[count % len(photographs)], draft)
        count += 1
    return count / (time.process_time() - began)


def our_rate(program, *arguments):
    return float(subprocess.run([program, *map(str, arguments)], check=True, capture_output=True).stdout)


def row_of(name, values, peer):
    each = [own / its for own, its in zip(values, peer)]
    return {"what": name, "rate": record.figure([[value] for value in values]),
            "ratio": record.ratio(statistics.median(values) / statistics.median(peer), each)}


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("--program", required=True, help="path of bench_loader")
    flags.add_argument("--photographs", required=True, help="tar file of JPEG images")
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--seconds", type=float, default=3)
    record.add_options(flags, "loader")
    given = flags.parse_args()
    photographs = read_photographs(given.photographs)
    runs = {
        "Pillow": lambda: pillow_rate(photographs, given.seconds, False),
        "Pillow, scaled decode": lambda: pillow_rate(photographs, given.seconds, True),
        "Poseidon": lambda: our_rate(given.program, "photographs", given.photographs, given.seconds),
    }
    rates = {name: [] for name in runs}
    for _ in range(given.rounds):
        for name, run in runs.items():
            rates[name].append(run())
    rows = [row_of(name, values, rates["Pillow"]) for name, values in rates.items()]
    for kind, name in (("small", "Poseidon, 32 x 32 pixels"), ("digits", "Poseidon, generated digits")):
        rows.append({"what": name, "rate": record.figure([[our_rate(given.program, kind, 1)]])})
    print("\n".join([*record.head(COLUMNS), *(record.line(COLUMNS, row) for row in rows)]))
    peer = f"Pillow {PIL.__version__} (libjpeg-turbo {features.version('libjpeg_turbo')})"
    print(f"\n{len(photographs)} photographs, {peer}, one core, medians of {given.rounds} rounds")
    record.write(given, COLUMNS, rows, peer=peer, about=ABOUT, headline=list(rates).index("Poseidon"))


if __name__ == "__main__":
    main()
