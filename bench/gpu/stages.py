"""The stages of first_light, with the most informative ones first. Each returns its results, whether they pass, and a
line that summarizes them."""
import csv
import dataclasses
import html
import json
import pathlib
import platform
import re
import shutil
import socket
import subprocess
import typing

import tensors
import trace_overlap
from measuring import ProgramFailed, Skipped

BAR_OF_COPY = 0.85
BAR_OF_PARITY = 1e-5
BAR_OF_WAITING = 0.03
PRECISIONS = ("fp32", "tf32", "bf16")
HERE = pathlib.Path(__file__).resolve().parent
TIMED = (("cifar10_quick-random", 1024), ("alexnet-random", 256), ("resnet50-random", 128), ("vgg19-random", 128),
         ("googlenet-random", 128), ("inception_v3-random", 128), ("resnet152-random", 64))
# All timed jobs use one logical shard and the optimizer of the PyTorch comparison, not the network's own recipe.
ONE_STEP = ["cluster.logical_shards=0",
            'optimizer={"type":"sgd","learning_rate":0.01,"momentum":0.9,"weight_decay":0.0005}']
PREDICTIONS = HERE.parents[1] / "docs" / "gpu-predictions.tsv"


@dataclasses.dataclass(frozen=True)
class Stage:
    name: str
    file: str  # results file; related stages share one
    seconds: int  # time limit; the remaining budget also limits a stage
    work: typing.Callable  # (bench, results of earlier stages by name) -> results, passed, summary


def attempt(rows, name, work):
    """Adds a row with the result of `work`, or with its error. Returns True if `work` succeeded."""
    try:
        rows.append({"name": name, **work()})
        return True
    except (ProgramFailed, OSError, KeyError, ValueError) as error:
        rows.append({"name": name, "error": f"{error}"[:400]})
        return False


# The machine and its limits.

def properties(bench, _):
    found = {"host": platform.platform(), "python": platform.python_version()}
    found["devices"] = json.loads(bench.run([bench.program("poseidon-train"), "--devices", "--json"], 60))
    for name, command in {
            "nvidia_smi": ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,"
                           "power.limit,pcie.link.gen.max,pcie.link.width.max,ecc.mode.current,compute_mode",
                           "--format=csv"],
            "topology": ["nvidia-smi", "topo", "-m"], "processor": ["lscpu"], "memory": ["free", "-g"],
            "sanitizer": ["compute-sanitizer", "--version"]}.items():
        if shutil.which(command[0]):
            try:
                found[name] = bench.run(command, 30).splitlines()[:60]
            except ProgramFailed as error:
                found[name] = str(error)
    gpus = found["devices"].get("gpus", [])
    why = found["devices"].get("why_no_gpus", "none listed")
    said = ", ".join(gpu.get("name", "?") for gpu in gpus) or f"no GPU: {why}"
    return found, bool(gpus) or bench.settings.is_cpu, said


def measure(bench):
    flags = (["--cpu"] if bench.settings.is_cpu else []) + (["--small"] if bench.settings.dry_run else [])
    return json.loads(bench.run([bench.program("bench_gpu"), *flags], 200))


def slow_kernels(measured):
    """The kernels that failed or that are below BAR_OF_COPY of a copy's bandwidth."""
    return [f"{precision} {row['name']} {row.get('pass', '')}: {row.get('error') or round(row['of_copy'], 2)}"
            for precision, rows in measured["kernels"].items() for row in rows
            if "error" in row or row["of_copy"] < BAR_OF_COPY]


def ceilings(bench, _):
    measured = measure(bench)
    below = slow_kernels(measured)
    count = sum(map(len, measured["kernels"].values()))
    measured["below_bar"] = below
    peaks = {precision: max((row.get("forward_tflops", 0) for row in rows), default=0)
             for precision, rows in measured["products"].items()}
    measured["peak_tflops"] = peaks
    said = (f"copy {measured['copies']['device_gbs']:.0f} GB/s, launch {measured['launch_us']:.1f} us, products "
            + ", ".join(f"{name} {peak:.1f}" for name, peak in peaks.items())
            + f" TFLOP/s; {count - len(below)} of {count} kernels reach {BAR_OF_COPY:.0%} of the copy bandwidth")
    return measured, not below or bench.settings.is_cpu, said


# Correct results.

def names_listed(report):
    return [html.unescape(name) for name in re.findall(r'<TestCase name="([^"]*)"', report)]


def cases_of(report):
    """{name: passed} for the cases in doctest's XML that completed, even if the program did not."""
    ran = re.findall(r'<TestCase name="([^"]*)"[^>]*[^/]>(.*?)</TestCase>', report, re.DOTALL)
    return {html.unescape(name): 'test_case_success="true"' in body for name, body in ran}


def pattern_of(name):
    """A doctest filter for this name. In filters, commas separate patterns; * and ? are wildcards."""
    return re.sub(r"[^\w :.-]", "?", name)


def what_failed(report):
    without_skipped = re.sub(r"<TestCase [^>]*/>", "", report)
    return re.sub(r"\s+", " ", without_skipped)[:1500]


def one_case(bench, program, name):
    """Runs a case in a separate process, so that earlier failures, even memory faults, do not affect it."""
    report = bench.run([program, "--reporters=xml", f"--test-case={pattern_of(name)}"], 60, accept=(0, 1))
    passed = cases_of(report).get(name, False)
    return {"passed": passed, **({} if passed else {"said": what_failed(report)})}


def parity(bench, _):
    program = bench.program("test_layers_gpu" if not bench.settings.is_cpu else "test_layers_cuda")
    narrow = ["--test-case=*relu*"] if bench.settings.dry_run else []
    listed = names_listed(bench.run([program, "--reporters=xml", "--list-test-cases", *narrow], 60))
    try:
        report = bench.run([program, "--reporters=xml", *narrow], bench.left() * 0.6, accept=(0, 1))
    except ProgramFailed as died:
        report = died.output
    together = cases_of(report)
    results = {"together": {"cases": len(together), "passed": sum(together.values())}, "alone": []}
    for name in listed:
        if not together.get(name, False):
            attempt(results["alone"], name, lambda name=name: one_case(bench, program, name))
    wrong = [row["name"] for row in results["alone"] if not row.get("passed", False)]
    results["wrong"] = wrong
    said = f"{len(listed) - len(wrong)} of {len(listed)} cases pass"
    return results, not wrong and bool(listed), said + (f"; failed: {'; '.join(wrong[:5])}" if wrong else "")


def written_job(bench, name, network, batch, size, classes, rate=0.01):
    """Writes a job with random images, which needs no data."""
    job = {"name": name, "network": str(bench.settings.configs / "networks" / f"{network}.json"),
           "data": {"train": {"type": "random", "channels": 3, "height": size, "width": size, "classes": classes,
                              "samples": 4 * batch}, "batch_per_worker": batch},
           "optimizer": {"type": "sgd", "learning_rate": rate, "momentum": 0.9, "weight_decay": 0.0001},
           "train": {"steps": 3, "seed": 1, "log_every": 1}}
    path = bench.settings.scratch / f"{name}.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    return path


def losses(metrics):
    return [line["loss"] for line in metrics if line.get("type") == "train"]


def three_steps(bench, job, network, results):
    sets = ["train.steps=3", "train.log_every=1"]
    _, metrics, folder = bench.train(job, device="cpu", precision="fp32", sets=sets)
    expected = tensors.read(folder / "checkpoints" / "step-3.safetensors")
    passed = True
    for precision in PRECISIONS[:1] if bench.settings.dry_run else PRECISIONS:
        def beside(precision=precision):
            _, got, other = bench.train(job, precision=precision, sets=sets)
            found = tensors.distances(tensors.read(other / "checkpoints" / "step-3.safetensors"), expected)
            return {"precision": precision, "losses": losses(got), "losses_of_cpu": losses(metrics),
                    "furthest": dict(list(found.items())[:5]), "distance": max(found.values(), default=0.0)}
        passed &= attempt(results, f"{network} {precision}", beside)
    return passed


def steps(bench, _):
    configs, results, passed = bench.settings.configs, [], True
    jobs = [("lenet", lambda: configs / "lenet-digits.json")]
    jobs += [(network, lambda network=network, batch=batch: written_job(bench, network, network, batch, 224, 1000))
             for network, batch in (("resnet18", 8), ("resnet50", 4))]
    for network, make in jobs[:1] if bench.settings.dry_run else jobs:
        if not (configs / "networks" / f"{network}.json").exists():
            results.append({"name": network, "skipped": "the network file does not exist"})
            continue
        try:
            passed &= three_steps(bench, make(), network, results)
        except ProgramFailed as error:
            results.append({"name": network, "error": str(error)})
            passed = False
    apart = {row["name"]: row["distance"] for row in results if "distance" in row}
    passed &= all(far <= BAR_OF_PARITY for name, far in apart.items() if name.endswith("fp32"))
    return results, passed and bool(apart), "distance of weights from the CPU's: " + ", ".join(
        f"{name} {far:.1e}" for name, far in apart.items())


def hashes(bench, _):
    configs, results = bench.settings.configs, []
    runs, count = (2, 3) if bench.settings.dry_run else (10, 50)
    jobs = [("lenet", configs / "lenet-digits.json", "fp32", count)]
    if not bench.settings.dry_run:
        jobs.append(("resnet18", written_job(bench, "resnet18-hashes", "resnet18", 32, 224, 1000), "bf16", 5))
    for network, job, precision, length in jobs:
        def all_runs(job=job, precision=precision, length=length):
            found = [bench.train(job, precision=precision, sets=[f"train.steps={length}"])[0]["weights_sha256"]
                     for _ in range(runs)]
            return {"precision": precision, "runs": runs, "hashes": sorted(set(found))}
        attempt(results, f"{network} {precision}", all_runs)
    passed = all(len(row.get("hashes", [])) == 1 for row in results)
    return results, passed, ", ".join(
        f"{row['name']}: {len(row.get('hashes', []))} different weight hash(es) in {runs} runs" for row in results)


def hash_of_devices(bench, devices, steps_taken):
    """The weights hash of a run with two logical shards, on one device or on two devices with one shard each."""
    return bench.train(bench.settings.configs / "lenet-digits.json", device=devices, extra=["--threads", "2"] if
                       "," in devices else ["--threads", "1"], sets=[
        f"train.steps={steps_taken}", "data.batch_per_worker=64", "cluster.logical_shards=2"])[0]["weights_sha256"]


def beside_cpu(bench, steps_taken):
    """Runs a CPU and the device in one job, and compares their replicas after each step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{free.getsockname()[1]}"
    daemons = [subprocess.Popen(
        [bench.program(program), "--coordinator", place, "--once", *more],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for program, *more in (("poseidon-worker", "--device", "cpu"),
                               ("poseidon-worker", "--device", bench.settings.device), ("poseidon-server",))]
    try:
        summary = bench.train(bench.settings.configs / "lenet-digits.json", device="cpu", limit=120, extra=[
            "--workers", "2", "--servers", "1", "--external", "--listen", place], sets=[
                f"train.steps={steps_taken}", "train.checkpoint_every=1", "train.keep_checkpoints=1",
                "cluster.logical_shards=8", "cluster.balance=speed"])[0]
    finally:
        for daemon in daemons:
            daemon.kill()
            daemon.wait()
    return {"device": summary["device"], "steps": summary["steps"], "train_loss": summary["train_loss"]}


def together(bench, _):
    device, results, passed = bench.settings.device, [], True
    steps_taken = 5 if bench.settings.dry_run else 200

    def twice():
        hashes_found = [hash_of_devices(bench, devices, steps_taken) for devices in (device, f"{device},{device}")]
        return {"hashes": sorted(set(hashes_found))}
    passed &= attempt(results, "one worker, the device twice", twice)
    passed &= attempt(results, "the device and a CPU", lambda: beside_cpu(bench, steps_taken))
    passed &= len(results[0].get("hashes", [])) == 1 and results[1].get("steps") == steps_taken
    return results, passed, (f"same device twice: {len(results[0].get('hashes', []))} weight hash(es); with a CPU: "
                             f"{results[1].get('steps', 'no')} steps with equal replicas")


def sanitizer(bench, _):
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    if bench.settings.is_cpu or not pathlib.Path(tool).exists():
        raise Skipped("compute-sanitizer is not installed")
    job, results, passed = bench.settings.configs / "lenet-digits.json", [], True
    sets = ["train.steps=2", "data.batch_per_worker=8", "data.test.samples=16"]
    program = bench.program("test_layers_gpu")
    for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
        wrapper = (tool, "--tool", check, "--error-exitcode", "9", "--target-processes", "all")
        passed &= attempt(results, f"lenet {check}", lambda wrapper=wrapper: {
            "loss": losses(bench.train(job, sets=sets, wrapper=wrapper, limit=100)[1])})
        passed &= attempt(results, f"layers {check}", lambda wrapper=wrapper: {
            "said": bench.run([*wrapper, program, "--test-case=cuda *,*on a GPU*,update*"], 100)[-400:]})
    clean = sum("error" not in row for row in results)
    return results, passed, f"{clean} of {len(results)} checks are clean"


# Speed.

def beside_peak(layers, peak_tflops):
    """The times of layers. For layers with products, adds the time at the measured peak rate."""
    rows = []
    for layer in layers:
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


def beside_prediction(said, predicted):
    """Compares the measured time of each layer type and pass, and of the update, with its prediction."""
    measured = {"update": said.get("update_ms", 0.0)}
    for layer in said["layers"]:
        for way in ("forward", "backward"):
            part = f"{layer['type']} {way}"
            measured[part] = measured.get(part, 0.0) + layer[f"{way}_ms"]
    return [{"name": part, "ms": took, "predicted_ms": predicted[part], "times": took / predicted[part]}
            for part, took in sorted(measured.items()) if predicted.get(part)]


def layers(bench, earlier):
    peaks = (earlier.get("ceilings", {}).get("results") or {}).get("peak_tflops", {})
    results, passed = [], True
    with PREDICTIONS.open(encoding="utf-8") as file:
        predicted = predictions(file)
    for name, batch in (("lenet-digits", 64),) if bench.settings.dry_run else TIMED:
        job = bench.settings.configs / f"{name}.json"
        for precision in PRECISIONS[:1] if bench.settings.dry_run else PRECISIONS:
            def timed(job=job, name=name, batch=batch, precision=precision):
                sets = [f"data.batch_per_worker={batch}", f"device.precision={precision}", *ONE_STEP]
                said = json.loads(bench.run([
                    bench.program("poseidon-train"), str(job), "--time", "--json", "--device", bench.settings.device,
                    *(word for value in sets for word in ("--set", value))], 120))
                key = (name.removesuffix("-random"), batch, precision)
                said["beside_prediction"] = beside_prediction(said, predicted.get(key, {}))
                said["layers"] = beside_peak(said["layers"], peaks.get(precision))
                return {"precision": precision, "batch": batch, **said}
            passed &= attempt(results, f"{name} {precision}", timed)
    return results, passed, ", ".join(timed_summary(row) for row in results if "forward_ms" in row)


def timed_summary(row):
    predicted = sum(part["predicted_ms"] for part in row["beside_prediction"] if part["name"] != "update")
    return (f"{row['name']} {row['forward_ms'] + row['backward_ms']:.1f} ms"
            + (f" ({predicted:.1f} predicted)" if predicted else ""))


def graphs(bench, _):
    """Compares steps that issue repeated work as graphs with steps that issue each operation separately."""
    results = []
    networks = (("lenet", 64), ("cifar10_quick", 100), ("resnet18", 32), ("resnet50", 64), ("alexnet", 256))
    for network, batch in (("lenet", 8),) if bench.settings.dry_run else networks:
        for precision in ("fp32",) if bench.settings.dry_run else ("bf16", "fp32"):
            def timed(network=network, batch=batch, precision=precision):
                said = json.loads(bench.run([
                    bench.program("bench_step"), str(bench.settings.configs / "networks" / f"{network}.json"), str(batch),
                    precision, *(["--cpu"] if bench.settings.is_cpu else [])], 60))
                return {"precision": precision, "batch": batch, **said}
            attempt(results, f"{network} {precision}", timed)
    measured = [row for row in results if "graphs_ms" in row]
    return results, len(measured) == len(results), ", ".join(
        f"{row['name']} {row['pieces_ms'] / row['graphs_ms']:.2f} x" for row in measured)


def trace(bench, _):
    results, passed = [], True
    networks = (("resnet50-random", 64), ("vgg19-random", 64))
    if bench.settings.dry_run:
        networks = (("lenet-digits", 64),)
    for name, batch in networks:
        def traced(name=name, batch=batch):
            summary, _, folder = bench.train(
                bench.settings.configs / f"{name}.json", extra=["--workers", "2", "--trace"], limit=100,
                sets=[f"data.batch_per_worker={batch}", f"train.steps={5 if bench.settings.dry_run else 25}"])
            events = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
            shutil.rmtree(folder)  # checkpoints of large networks are large
            return {"samples_per_second": summary["samples_per_second"], **trace_overlap.shares(events)}
        passed &= attempt(results, name, traced)
    told = [row for row in results if "hidden" in row]
    passed &= all(row["sent_ms"] > 0 and (bench.settings.dry_run or (
        row["hidden"] > 0.5 and row["waited"] <= BAR_OF_WAITING)) for row in told)
    return results, passed, ", ".join(
        f"{row['name']}: {row['hidden']:.0%} of {row['sent_ms']:.1f} ms of sending overlaps computation, which waits "
        f"{row['waited']:.1%} of the time" for row in told)


def accuracy(bench, _):
    configs, results, passed = bench.settings.configs, [], True
    # After 30 steps, the accuracy is above that of guessing.
    jobs = [("lenet-digits", 0.2, ["train.steps=30"]) if bench.settings.dry_run else ("lenet-digits", 0.99, [])]
    if bench.settings.data and not bench.settings.dry_run:
        jobs += [("lenet-mnist", 0.99, []), ("cifar10_quick-cifar10", 0.73, [])]
    for name, bar, sets in jobs:
        def trained(name=name, bar=bar, sets=sets):
            summary = bench.train(configs / f"{name}.json", sets=sets)[0]
            return {"bar": bar, "test_top1": summary["test_top1"], "train_loss": summary["train_loss"],
                    "samples_per_second": summary["samples_per_second"], "wall_seconds": summary["wall_seconds"]}
        passed &= attempt(results, name, trained)
    passed &= all(row["test_top1"] >= row["bar"] for row in results if "bar" in row)
    return results, passed, ", ".join(f"{row['name']} {row['test_top1']:.2%}" for row in results if "bar" in row)


def own_speed(bench, job, batch, precision):
    count = 4 if bench.settings.dry_run else 40
    _, metrics, folder = bench.train(job, precision=precision, sets=[
        f"data.batch_per_worker={batch}", f"data.train.samples={max(1024, batch)}", f"train.steps={count}",
        "train.log_every=1", *ONE_STEP], limit=120)
    shutil.rmtree(folder)  # checkpoints of large networks are large
    rates = sorted(line["samples_per_second"] for line in metrics if line.get("type") == "train")
    return rates[len(rates) // 2]


def peer_speed(bench, network, batch, precision):
    """Samples per second of PyTorch, eager and compiled."""
    found = {}
    for mode in ((), ("--compile",)):
        try:
            said = json.loads(bench.run([
                bench.settings.python, str(HERE / "pytorch_gpu.py"), network, "--batch", str(batch), "--precision",
                precision, "--device", bench.settings.device, *mode], 150).splitlines()[-1])
            found["compiled" if mode else "eager"] = said["samples_per_second"]
        except (ProgramFailed, ValueError, IndexError) as error:
            found["why_not_compiled" if mode else "why_not_eager"] = str(error)[:300]
    return found


def largest_common(bench, job, network, batches, precision, with_peer):
    """The speeds at the largest batch that Poseidon and PyTorch can both train. If a batch fails, tries a smaller
    one."""
    why = []
    for batch in batches:
        try:
            row = {"network": network, "precision": precision, "batch": batch,
                   "samples_per_second": own_speed(bench, job, batch, precision)}
        except ProgramFailed as error:
            why.append(f"batch {batch}: {error}")
            continue
        if with_peer:
            peer = peer_speed(bench, network, batch, precision)
            row["pytorch"] = peer
            best = max((peer[mode] for mode in ("eager", "compiled") if mode in peer), default=0)
            if not best and batch != batches[-1]:
                why.append(f"batch {batch}: PyTorch failed")
                continue
            row["of_pytorch"] = row["samples_per_second"] / best if best else None
        return {**row, **({"tried": why} if why else {})}
    raise ProgramFailed("; ".join(why)[:400])


SPEEDS = (("cifar10_quick", (4096, 1024)), ("resnet50", (256, 128, 64)), ("alexnet", (1024, 512, 256)),
          ("vgg19", (256, 128, 64)), ("googlenet", (256, 128)), ("inception_v3", (256, 128, 64)),
          ("resnet152", (128, 64)))


def has_pytorch(bench):
    try:
        bench.run([bench.settings.python, "-c", "import torch"], 60)
        return True
    except (ProgramFailed, OSError):
        return False


def peers(bench, _):
    with_peer, results = has_pytorch(bench), []
    networks = (("lenet", (16,)),) if bench.settings.dry_run else SPEEDS
    for precision in ("fp32",) if bench.settings.dry_run else ("bf16", "tf32", "fp32"):
        for network, batches in networks:
            config = "lenet-digits" if network == "lenet" else f"{network}-random"
            attempt(results, f"{network} {precision}", lambda config=config, network=network, batches=batches,
                    precision=precision: largest_common(bench, bench.settings.configs / f"{config}.json", network,
                                                        batches, precision, with_peer))
    passed = all((row.get("of_pytorch") or 0) >= 1 or not with_peer for row in results if "error" not in row)
    said = ", ".join(f"{row['name']} {row['samples_per_second']:.0f}/s" +
                     (f" ({row['of_pytorch']:.2f} x)" if row.get("of_pytorch") else "")
                     for row in results if "samples_per_second" in row)
    return results, passed and all("error" not in row for row in results), \
        said + ("" if with_peer else "; PyTorch is not available")


STAGES = (
    Stage("properties", "properties", 120, properties),
    Stage("ceilings", "ceilings", 200, ceilings),
    Stage("parity", "parity", 420, parity),
    Stage("steps", "steps", 240, steps),
    Stage("hashes", "steps", 150, hashes),
    Stage("together", "steps", 100, together),
    Stage("sanitizer", "sanitizer", 240, sanitizer),
    Stage("layers", "layers", 200, layers),
    Stage("graphs", "layers", 150, graphs),
    Stage("trace", "layers", 160, trace),
    Stage("accuracy", "runs", 150, accuracy),
    Stage("peers", "runs", 1200, peers),
)
