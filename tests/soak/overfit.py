#!/usr/bin/env python3
"""Overfit test: networks are trained on 200 photographs, packed, decoded and augmented, with one class per photograph.
On the same photographs without augmentation, their top-1 accuracy must be above 95 %.

    tests/soak/overfit.py --binaries build/release/bin [--photographs PHOTOGRAPHS.tar] [--epochs N]
        [--workers 2 --keep FOLDER] [NETWORK]...

NETWORK is alexnet or resnet18; default: both. PHOTOGRAPHS.tar contains a folder for each class in train/. The default
is imagenet-sample/imagenet-sample-250.tar in ${POSEIDON_DATA} or ../shared/data. If that is missing, the script prints
a message and exits with code 77. --keep FOLDER writes the records, jobs and runs to a new folder that stays.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
PHOTOGRAPHS, ENOUGH = 200, 0.95
COLOURS = {"mean": [123.675, 116.28, 103.53], "std": [58.395, 57.12, 57.375]}
# Transforms, optimizer and number of epochs of each network.
JOBS = {
    "alexnet": {"train": {"resize_short": 256, "crop": 227, "mirror": True},
                "test": {"resize_short": 256, "crop": 227}, "epochs": 150,
                "optimizer": {"type": "adam", "learning_rate": 0.0001}},
    "resnet18": {"train": {"random_resized_crop": {"size": 224, "area": [0.5, 1]}, "mirror": True,
                           "jitter": {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2}},
                 "test": {"resize_short": 256, "crop": 224}, "epochs": 40,
                 "optimizer": {"type": "sgd", "learning_rate": 0.02, "momentum": 0.9,
                               "schedule": {"type": "cosine"}}},
}


def photographs_at_hand():
    for folder in (os.environ.get("POSEIDON_DATA", ""), ROOT.parent / "shared" / "data"):
        file = pathlib.Path(folder) / "imagenet-sample" / "imagenet-sample-250.tar"
        if file.exists():
            return file
    return None


def extract_first(archive, folder):
    with tarfile.open(archive) as tar:
        files = sorted((entry for entry in tar if entry.isfile()), key=lambda entry: entry.name)
        tar.extractall(folder, members=files[:PHOTOGRAPHS])


def run(program, *arguments):
    subprocess.run([program, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def network_of(name):
    """The network of configs/networks with one output per photograph."""
    network = json.loads((ROOT / "configs" / "networks" / f"{name}.json").read_text())
    scores = [layer for layer in network["layers"] if layer["type"] == "linear"][-1]
    scores["outputs"] = PHOTOGRAPHS
    return network


def job_of(name, records, options):
    job = JOBS[name]
    data = {phase: {"type": "records", "path": str(records), "transform": {**job[phase], **COLOURS}}
            for phase in ("train", "test")}
    return {"name": name, "network": "network.json", "data": {**data, "global_batch": 40},
            "optimizer": job["optimizer"],
            "train": {"epochs": options.epochs or job["epochs"], "seed": 1, "log_every": 5}}


def known_part(options, name, records, folder):
    """The top-1 accuracy on the photographs after training."""
    folder.mkdir()
    (folder / "network.json").write_text(json.dumps(network_of(name)))
    (folder / "job.json").write_text(json.dumps(job_of(name, records, options)))
    run(options.binaries / "poseidon-train", folder / "job.json", "--output", folder / "run", "--workers",
        options.workers)
    return json.loads((folder / "run" / "summary.json").read_text())["test_top1"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, required=True)
    parser.add_argument("--photographs", type=pathlib.Path, default=photographs_at_hand())
    parser.add_argument("--epochs", type=int, help="default: those of the network")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for records and runs")
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=", ".join(JOBS))
    options = parser.parse_args()
    if unknown := set(options.networks) - set(JOBS):
        parser.error(f"expected one of {', '.join(JOBS)}, got {', '.join(sorted(unknown))}")
    if options.photographs is None:
        print("skipped: no imagenet-sample/imagenet-sample-250.tar in ${POSEIDON_DATA} or ../shared/data")
        sys.exit(SKIPPED)
    failed = []
    with tempfile.TemporaryDirectory() as place:
        folder = options.keep.resolve() if options.keep else pathlib.Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        extract_first(options.photographs, folder / "photographs")
        run(options.binaries / "poseidon-data", "pack", folder / "photographs", "--prefix", "train", "--resize", "256",
            "--output", folder / "records")
        for name in options.networks or JOBS:
            part = known_part(options, name, folder / "records", folder / name)
            print(f"{name}: knows {100 * part:.1f} % of {PHOTOGRAPHS} photographs", flush=True)
            if part <= ENOUGH:
                failed.append(name)
    sys.exit(f"{', '.join(failed)}: expected more than {100 * ENOUGH:.0f} %" if failed else 0)


if __name__ == "__main__":
    main()
