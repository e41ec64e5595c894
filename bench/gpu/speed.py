"""Stages of first_light that measure speed: layers, steps, overlap of sending, whole runs, and PyTorch."""
import contextlib
import csv
import json
import os
import pathlib
import shutil

import trace_overlap
from correctness import PRECISIONS
from machine import FIRST_LOAD, starts_without_gpu
from measuring import ProgramFailed

MOST_WAITING = 0.03  # of the time, at gates
HERE = pathlib.Path(__file__).resolve().parent
PREDICTIONS = HERE.parents[1] / "docs" / "gpu-predictions.tsv"
TIMED = (("resnet50-random", 128), ("alexnet-random", 256), ("vgg19-random", 128), ("cifar10_quick-random", 1024),
         ("googlenet-random", 128), ("inception_v3-random", 128), ("resnet152-random", 64))
# Networks that are compared with PyTorch, after ResNet-50.
PEERS = (("vgg19", 256), ("alexnet", 1024), ("cifar10_quick", 4096), ("googlenet", 256), ("inception_v3", 256),
         ("resnet152", 128))
# All timed jobs use one logical shard and the optimizer of the PyTorch comparison, not the network's own recipe.
ONE_STEP = ["cluster.logical_shards=0",
            'optimizer={"type":"sgd","learning_rate":0.01,"momentum":0.9,"weight_decay":0.0005}']
MOST_LOADER_THREADS = 12


# Layers.

def with_peak(layers_timed, peak_tflops):
    """The times of layers. For layers with products, adds the time at the measured peak rate."""
    rows = []
    for layer in layers_timed:
        row = {key: layer[key] for key in ("name", "type", "forward_ms", "backward_ms")}
        for way in ("forward", "backward"):
            flops = layer[f"{way}_gflops"] * layer[f"{way}_ms"] / 1e3  # GFLOP
            if flops and peak_tflops:
                row[f"{way}_at_peak_ms"] = flops / peak_tflops
        rows.append(row)
    return rows


def predictions(lines):
    """Parses lines of docs/gpu-predictions.tsv: {(network, batch, precision): {part of a step: ms}}."""
    found = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        if row["kind"] == "part":
            parts = found.setdefault((row["network"], int(row["batch"]), row["precision"]), {})
            parts[row["name"]] = float(row["microseconds"]) / 1e3
    return found


def with_prediction(said, predicted):
    """Compares the measured time of each layer type and pass, and of the update, with its prediction."""
    measured = {"update": said.get("update_ms", 0.0)}
    for layer in said["layers"]:
        for way in ("forward", "backward"):
            part = f"{layer['type']} {way}"
            measured[part] = measured.get(part, 0.0) + layer[f"{way}_ms"]
    return [{"name": part, "ms": took, "predicted_ms": predicted[part], "times": took / predicted[part]}
            for part, took in sorted(measured.items()) if predicted.get(part)]


def timed_layers(bench, name, batch, precision, predicted):
    sets = [f"data.batch_per_worker={batch}", *ONE_STEP]
    said = json.loads(bench.run([
        bench.program("poseidon-train"), str(bench.settings.configs / f"{name}.json"), "--time", "--json",
        *bench.device_words(precision=precision, sets=sets)], 120))
    peak = bench.results_of("ceilings").get("peak_tflops", {}).get(precision)
    said["prediction"] = with_prediction(said, predicted.get((name.removesuffix("-random"), batch, precision), {}))
    said["layers"] = with_peak(said["layers"], peak)
    return {"precision": precision, "batch": batch, **said}


def layers(bench):
    with PREDICTIONS.open(encoding="utf-8") as file:
        predicted = predictions(file)
    for precision in PRECISIONS[:1] if bench.settings.dry_run else reversed(PRECISIONS):
        for name, batch in (("lenet-digits", 64),) if bench.settings.dry_run else TIMED:
            bench.attempt(f"{name} {precision}", lambda name=name, batch=batch, precision=precision: timed_layers(
                bench, name, batch, precision, predicted))
    return bench.all_measured(), ", ".join(timed_summary(row) for row in bench.rows if "forward_ms" in row)


def timed_summary(row):
    predicted = sum(part["predicted_ms"] for part in row["prediction"] if part["name"] != "update")
    return (f"{row['name']} {row['forward_ms'] + row['backward_ms']:.1f} ms"
            + (f" ({predicted:.1f} predicted)" if predicted else ""))


# Steps without the upload of a batch.

def step_times(bench, network, batch, precision):
    """Runs bench_step. Its result has "pieces_ms" or "pieces_error", "graphs_ms" or "graphs_error", and "warnings". If
    bench_step crashes during the measurement with graphs, the result keeps the time without graphs."""
    found = {}
    try:
        said = bench.run([
            bench.program("bench_step"), str(bench.settings.configs / "networks" / f"{network}.json"), str(batch),
            precision, *(["--cpu"] if bench.settings.is_cpu else [])], FIRST_LOAD, accept=(0, 1))
    except ProgramFailed as died:
        said, found["graphs_error"] = died.output, str(died)
    found = {**json.loads(said.strip().rpartition("\n")[2] or "{}"), **found}
    if "pieces_ms" not in found and "graphs_ms" not in found:
        raise ProgramFailed(found.get("pieces_error") or found.get("graphs_error") or "bench_step printed no result")
    return {"precision": precision, "batch": batch, **found}


def graphs(bench):
    """Compares steps that issue repeated work as graphs with steps that issue each operation separately."""
    starts_without_gpu(bench, "bench_step", str(bench.settings.configs / "networks" / "lenet.json"), "8", "fp32")
    networks = (("lenet", 8),) if bench.settings.dry_run else (
        ("resnet50", 128), ("lenet", 64), ("cifar10_quick", 100), ("resnet18", 32), ("alexnet", 256))
    for precision in ("fp32",) if bench.settings.dry_run else ("bf16", "fp32"):
        for network, batch in networks:
            bench.attempt(f"{network} {precision}", lambda network=network, batch=batch, precision=precision:
                          step_times(bench, network, batch, precision))
    good = bench.all_measured() and all("pieces_ms" in row and "graphs_ms" in row and not row.get("warnings")
                                        for row in bench.rows)
    return good, ", ".join(graphs_summary(row) for row in bench.rows)


def graphs_summary(row):
    if "pieces_ms" in row and "graphs_ms" in row:
        refused = " (refused)" if row.get("warnings") else ""
        return f"{row['name']} {row['pieces_ms'] / row['graphs_ms']:.2f} x{refused}"
    return f"{row['name']}: " + row.get("error", row.get("graphs_error", row.get("pieces_error", "")))[:120]


# Overlap of sending and computing.

@contextlib.contextmanager
def shared_gpu(bench):
    """Runs CUDA's multi-process service (MPS) if it is installed. Without it, two processes use a GPU alternately, and
    overlap has no meaning. Yields True if the service runs."""
    control = None if bench.settings.is_cpu else shutil.which("nvidia-cuda-mps-control")
    if not control:
        yield False
        return
    before = dict(bench.environment)
    for kind in ("PIPE", "LOG"):
        folder = bench.settings.scratch / f"mps-{kind.lower()}"
        folder.mkdir(exist_ok=True)
        bench.environment[f"CUDA_MPS_{kind}_DIRECTORY"] = str(folder)
    try:
        try:
            bench.run([control, "-d"], 30)
            command = [bench.program("poseidon-train"), "--devices", "--json"]
            works = bool(json.loads(bench.run(command, 60)).get("gpus"))
        except (ProgramFailed, OSError, ValueError) as error:
            bench.results["mps_error"], works = str(error)[:400], False
        if works:
            yield True
    finally:
        with contextlib.suppress(ProgramFailed, OSError):
            bench.run(["sh", "-c", f"echo quit | {control}"], 30)
        bench.environment = before
    if not works:
        yield False


def traced(bench, name, batch):
    summary, _, folder = bench.train(
        bench.settings.configs / f"{name}.json", extra=["--workers", "2", "--trace"], limit=100,
        sets=[f"data.batch_per_worker={batch}", f"train.steps={5 if bench.settings.dry_run else 25}"])
    events = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    shutil.rmtree(folder)  # checkpoints of large networks are large
    return {"samples_per_second": summary["samples_per_second"], **trace_overlap.shares(events)}


def trace(bench):
    jobs = (("lenet-digits", 64),) if bench.settings.dry_run else (("resnet50-random", 64), ("vgg19-random", 64))
    with shared_gpu(bench) as is_shared:
        for name, batch in jobs:
            bench.attempt(name, lambda name=name, batch=batch: {"mps": is_shared, **traced(bench, name, batch)})
    rows = [row for row in bench.rows if "hidden" in row]
    good = all(row["sent_ms"] > 0 and (not row["mps"] or (
        row["hidden"] > 0.5 and row["waited"] <= MOST_WAITING)) for row in rows)
    return good and bench.all_measured(), ", ".join(
        f"{row['name']}: {row['hidden']:.0%} of {row['sent_ms']:.1f} ms of sending overlaps computation, which waits "
        f"{row['waited']:.1%} of the time" for row in rows) + (
            "" if all(row["mps"] for row in rows) else "; not judged, because the workers do not share a GPU by MPS")


# Whole runs.

def accuracy(bench):
    # After 30 steps, the accuracy is above that of guessing.
    jobs = [("lenet-digits", 0.2, ["train.steps=30"]) if bench.settings.dry_run else ("lenet-digits", 0.99, [])]
    if bench.settings.data and not bench.settings.dry_run:
        jobs += [("lenet-mnist", 0.99, []), ("cifar10_quick-cifar10", 0.73, [])]
    for name, bar, sets in jobs:
        def trained(name=name, bar=bar, sets=sets):
            summary = bench.train(bench.settings.configs / f"{name}.json", sets=sets)[0]
            return {"bar": bar, "test_top1": summary["test_top1"], "train_loss": summary["train_loss"],
                    "samples_per_second": summary["samples_per_second"], "wall_seconds": summary["wall_seconds"]}
        bench.attempt(name, trained)
    good = all(row["test_top1"] >= row["bar"] for row in bench.rows if "bar" in row)
    return good and bench.all_measured(), ", ".join(
        f"{row['name']} {row['test_top1']:.2%}" for row in bench.rows if "bar" in row)


# Comparison with PyTorch, in bf16.

def shape_of(bench, network):
    """Channels, height and width of a network's input."""
    network = json.loads((bench.settings.configs / "networks" / f"{network}.json").read_text(encoding="utf-8"))
    return [network["input"].get(key, 1) for key in ("channels", "height", "width")]


def pixels(bench, shape, classes, samples):
    """Writes a dataset of random pixels. Returns settings (--set) that use it. With random floats, the loader would
    limit the speed."""
    folder = bench.settings.scratch / f"pixels-{'x'.join(map(str, shape))}-{classes}-{samples}"
    if not folder.exists():
        sizes = {"samples": samples, "classes": classes, **dict(zip(("channels", "height", "width"), shape))}
        bench.run([bench.program("poseidon-data"), "make", "random", "--output", str(folder),
                   *(word for key, value in sizes.items() for word in (f"--{key}", str(value)))], 100)
    transform = {"mean": shape[0] * [127.5], "std": shape[0] * [74]}
    return ["data.train=" + json.dumps({"type": "records", "path": str(folder), "transform": transform}),
            "data.test=null", f"data.loader_threads={min(MOST_LOADER_THREADS, os.cpu_count() or 1)}"]


def speed_with_loader(bench, network, batch, precision, more=()):
    """Samples per second in the median step of a run that loads pixels."""
    job = bench.settings.configs / ("lenet-digits.json" if network == "lenet" else f"{network}-random.json")
    classes = json.loads(job.read_text(encoding="utf-8"))["data"]["train"].get("classes", 10)
    count = 4 if bench.settings.dry_run else 40
    _, metrics, folder = bench.train(job, precision=precision, limit=150, sets=[
        *pixels(bench, shape_of(bench, network), classes, max(1024, batch)), f"data.batch_per_worker={batch}",
        f"train.steps={count}", "train.log_every=1", *ONE_STEP, *more])
    shutil.rmtree(folder)  # checkpoints of large networks are large
    rates = sorted(line["samples_per_second"] for line in metrics if line.get("type") == "train")
    return {"batch": batch, "samples_per_second": rates[len(rates) // 2]}


def speed_on_device(bench, network, batch, precision):
    """Samples per second with the batch on the GPU from the start, as in the PyTorch comparison."""
    found = step_times(bench, network, batch, precision)
    best = min(found[key] for key in ("graphs_ms", "pieces_ms") if key in found)
    return {**found, "samples_per_second": 1e3 * batch / best}


def speed_of_pytorch(bench, network, batch, precision, *mode):
    said = bench.run([bench.settings.python, str(HERE / "pytorch_gpu.py"), network, "--batch", str(batch),
                      "--precision", precision, "--device", bench.settings.device, *mode], 240 if mode else FIRST_LOAD)
    return json.loads(said.splitlines()[-1])


def has_pytorch(bench):
    try:
        bench.run([bench.settings.python, "-c", "import torch"], FIRST_LOAD)
        return True
    except (ProgramFailed, OSError):
        return False


def compare(bench, network, batch, precision, with_pytorch):
    for way, work in (("batch on the GPU", speed_on_device), ("with loader", speed_with_loader),
                      *((("PyTorch eager", speed_of_pytorch),) if with_pytorch else ())):
        bench.attempt(f"{network}: {way}", lambda work=work: work(bench, network, batch, precision))


def compared(bench):
    """Speeds of each network, and the ratio to PyTorch with the batch on the GPU."""
    rates = {row["name"]: row["samples_per_second"] for row in bench.rows if "samples_per_second" in row}
    said = []
    for name, rate in rates.items():
        network, _, way = name.partition(": ")
        own = rates.get(f"{network}: batch on the GPU")
        said.append(f"{name} {rate:.0f}/s" + (f" ({own / rate:.2f} x)" if own and way.startswith("PyTorch") else ""))
    return ", ".join(said)


def tuned(bench, network, batch, precision):
    """The speed with the fastest plan of each convolution, and the file of these plans."""
    folder = bench.folder()
    sets = [f"data.batch_per_worker={batch}", *ONE_STEP]
    job = bench.settings.configs / f"{network}-random.json"
    bench.run([bench.program("poseidon-train"), str(job), "--tune", "--json", "--output", str(folder),
               *bench.device_words(precision=precision, sets=sets)], 150)
    file = folder / "choices.json"
    return {**speed_with_loader(bench, network, batch, precision, [f"device.choices={file}"]),
            "choices": json.loads(file.read_text(encoding="utf-8"))}


def resnet50(bench):
    network, batch, precision = ("lenet", 16, "fp32") if bench.settings.dry_run else ("resnet50", 256, "bf16")
    with_pytorch = has_pytorch(bench)
    compare(bench, network, batch, precision, with_pytorch)
    if not bench.settings.dry_run:
        bench.attempt(f"{network}: with loader, tuned", lambda: tuned(bench, network, batch, precision))
    return bench.all_measured(), compared(bench) + ("" if with_pytorch else "; PyTorch is not available")


def peers(bench):
    """Compares the other networks with PyTorch, and last ResNet-50 with compiled PyTorch, because the compilation takes
    minutes."""
    with_pytorch = has_pytorch(bench)
    precision = "fp32" if bench.settings.dry_run else "bf16"
    for network, batch in (("lenet", 16),) if bench.settings.dry_run else PEERS:
        compare(bench, network, batch, precision, with_pytorch)
    if with_pytorch and not bench.settings.dry_run:
        bench.attempt("resnet50: batch on the GPU", lambda: speed_on_device(bench, "resnet50", 256, precision))
        bench.attempt("resnet50: PyTorch compiled", lambda: speed_of_pytorch(
            bench, "resnet50", 256, precision, "--compile"))
    return bench.all_measured(), compared(bench) + ("" if with_pytorch else "; PyTorch is not available")
