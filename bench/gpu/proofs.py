"""Records for docs/gpu-proofs.json (tests/cuda_code/unproven.py): which kernels the results of first_light prove."""
import datetime
import json
import pathlib
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "tests" / "cuda_code"


def records(kernels, folder, today):
    """One for each kernel of the library, if all cases of parity passed on a GPU; none otherwise: which kernels a case
    that failed ran is not known."""
    read = lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))  # noqa: E731
    parity, properties = read("parity")["parity"], read("properties")["properties"]["results"]
    gpus = properties["devices"]["gpus"]
    if parity["status"] != "passed" or not gpus:
        return []
    by = next((entry["command"] for entry in parity["commands"]), "test_layers_gpu")
    if "test_layers_gpu" not in by:
        return []  # a dry run
    driver = properties["nvidia_smi"][-1].split(",")[1].strip() if "nvidia_smi" in properties else "unknown"
    return [{"code": kernel.code, "kernel": name, "by": "bench/gpu/first_light --only parity", "gpu": gpus[0]["name"],
             "driver": driver, "date": today, "result": "passed"} for name, kernel in kernels.items()]


def write(folder, library):
    if not library:
        sys.exit("first_light: --proofs needs --library")
    sys.path.insert(0, str(SOURCES))
    import kernel_code  # pylint: disable=import-outside-toplevel  # only the sources have it
    found = records(kernel_code.read_kernels(library), folder, datetime.date.today().isoformat())
    print(json.dumps(found, indent=1))
    return 0 if found else 1
