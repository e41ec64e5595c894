"""Stages of first_light that test whether results are correct."""
import html
import json
import re
import socket

import tensors
from machine import layer_tests
from measuring import ProgramFailed

BAR_OF_GRADIENTS = 10  # largest distance from the CPU; unit: distance of two CPU runs that add in different orders
LEAST_DISTANCE = 1e-7  # about the rounding of one fp32 value
PRECISIONS = ("fp32", "tf32", "bf16")
MOST_RESTARTS = 8  # limit on successive restarts that fail in their first case
QUIET = 120  # seconds without output after which a case counts as hanging


# The layer tests.

def names_listed(report):
    return [html.unescape(name) for name in re.findall(r'<TestCase name="([^"]*)"', report)]


def cases_of(report):
    """[(name, passed)] of the completed cases in doctest's XML, in order. The program need not have completed."""
    without_skipped = re.sub(r"<TestCase [^>]*/>", "", report)
    ran = re.findall(r'<TestCase name="([^"]*)"[^>]*>(.*?)</TestCase>', without_skipped, re.DOTALL)
    return [(html.unescape(name), 'test_case_success="true"' in body) for name, body in ran]


def what_failed(report):
    """The start of the last case's XML."""
    without_skipped = re.sub(r"<TestCase [^>]*/>", "", report)
    return re.sub(r"\s+", " ", without_skipped[max(without_skipped.rfind("<TestCase "), 0):])[:1500]


def independent(cases, failures=1):
    """The verdicts that earlier failures cannot have caused. After a GPU fault, all later cases of the process fail. So
    of the failures at the end, only the first `failures` count."""
    count = len(cases)
    while count and not cases[count - 1][1]:
        count -= 1
    return [passed for _, passed in cases[:count + failures]]


def run_from(bench, program, narrow, first):
    """Runs the cases from index `first` on in one process. Returns the verdicts that count, and the reason if the
    program ended early. At least one verdict counts, unless the time of the stage is over."""
    why = None
    try:
        report = bench.run([program, "--reporters=xml", f"--first={first + 1}", *narrow], accept=(0, 1), quiet=QUIET)
    except ProgramFailed as died:
        report, why = died.output, str(died)
    if bench.left() < 1:
        return independent(cases_of(report), failures=0), why
    verdicts = independent(cases_of(report))
    if why and all(verdicts):  # the program died in the next case
        verdicts.append(False)
        why = f"{why}: {what_failed(report)}"
    return verdicts, why


def run_together(bench, program, narrow, cases):
    """Runs cases without a verdict in one process. If a case ends the process or the GPU's context, starts a new
    process with the next case. `cases`: [name, verdict or None] in the program's order."""
    restarts = 0
    while restarts < MOST_RESTARTS and bench.left() > 1:
        first = next((index for index, (_, verdict) in enumerate(cases) if verdict is None), None)
        if first is None:
            return
        verdicts, why = run_from(bench, program, narrow, first)
        for case, verdict in zip(cases[first:], verdicts):
            case[1] = verdict
        restarts = restarts + 1 if len(verdicts) <= 1 else 0
        if why:
            bench.results.setdefault("ended", []).append({"case": cases[min(first + len(verdicts), len(cases)) - 1][0],
                                                          "reason": why[:1500]})
        bench.store()


def run_alone(bench, program, narrow, index):
    """Runs a case in a separate process, so that earlier failures do not affect it."""
    only = [f"--first={index + 1}", f"--last={index + 1}"]
    report = bench.run([program, "--reporters=xml", *only, *narrow], 90, accept=(0, 1))
    passed = any(verdict for _, verdict in cases_of(report))
    return {"passed": passed, **({} if passed else {"said": what_failed(report)})}


def parity(bench):
    program = layer_tests(bench)
    narrow = ["--test-case=*relu*"] if bench.settings.dry_run else []
    listed = names_listed(bench.run([program, "--reporters=xml", "--list-test-cases", *narrow], 180))
    cases = bench.results_of("parity").get("cases", [])
    if [name for name, _ in cases] != listed:
        cases = [[name, None] for name in listed]
    bench.results = {"cases": cases}
    run_together(bench, program, narrow, cases)
    for index, (name, verdict) in enumerate(cases):
        if verdict is False:
            bench.attempt(name, lambda index=index: run_alone(bench, program, narrow, index))
    right = {row["name"] for row in bench.rows if row.get("passed")}
    wrong = [name for name, verdict in cases if verdict is False and name not in right]
    missing = sum(verdict is None for _, verdict in cases)
    bench.results.update(wrong=wrong, only_alone=sorted(right))
    return bool(cases) and not wrong and not missing, (
        f"{len(cases) - len(wrong) - missing} of {len(cases)} cases pass"
        + (f"; {missing} did not run" if missing else "") + (f"; failed: {'; '.join(wrong[:5])}" if wrong else ""))


# The first gradient.

def unchanged(network):
    return network


def written_job(bench, network, batch, change=unchanged):
    """Writes a job that trains on random images of 224 x 224, so it needs no data files. `change` converts the
    network."""
    file = bench.settings.configs / "networks" / f"{network}.json"
    definition = bench.settings.scratch / f"{network}-{change.__name__}.json"
    definition.write_text(json.dumps(change(json.loads(file.read_text(encoding="utf-8")))), encoding="utf-8")
    job = {"name": network, "network": str(definition),
           "data": {"train": {"type": "random", "channels": 3, "height": 224, "width": 224, "classes": 1000,
                              "samples": 4 * batch}, "batch_per_worker": batch},
           "optimizer": {"type": "sgd", "learning_rate": 0.01, "momentum": 0.9, "weight_decay": 0.0001},
           "train": {"steps": 3, "seed": 1, "log_every": 1}}
    path = bench.settings.scratch / f"job-{definition.name}"
    path.write_text(json.dumps(job), encoding="utf-8")
    return path


def smooth(value):
    """A network without kinks: swish replaces relu, and average pooling replaces max pooling. With kinks, a rounding
    difference of one value near zero changes gradients by several percent."""
    if isinstance(value, list):
        return [smooth(one) for one in value]
    if not isinstance(value, dict):
        return value
    changes = {"relu": {"type": "swish"}, "pooling": {"method": "average"}}
    return {**{key: smooth(one) for key, one in value.items()}, **changes.get(str(value.get("type")), {})}


def first_gradient(bench, job, device=None, precision="fp32", extra=()):
    """The loss and the weights after one step. The learning rate is so large that the initial weights are negligible:
    the new weights are a multiple of the gradient."""
    _, metrics, folder = bench.train(job, device, precision, extra=extra, sets=[
        'optimizer={"type":"sgd","learning_rate":1048576}', "train.steps=1", "train.log_every=1", "data.test=null"])
    losses = [line["loss"] for line in metrics if line.get("type") == "train"]
    return losses, tensors.read(folder / "checkpoints" / "step-1.safetensors")


def first_gradients(bench, network, job, precisions):
    """Measures the distance of the device's gradient from the CPU's, and the distance of two CPU runs that add in
    different orders."""
    expected = []

    def two_cpu_runs():
        (losses, gradient), (_, other) = (first_gradient(bench, job, "cpu", extra=extra)
                                          for extra in ((), ("--isa", "x86-64-v2")))
        found = tensors.distances(other, gradient)
        expected[:] = losses, gradient
        return {"losses": losses, "furthest": dict(list(found.items())[:5]),
                "distance": max(found.values(), default=0.0)}

    def device_run(precision):
        losses, gradient = first_gradient(bench, job, precision=precision)
        found = tensors.distances(gradient, expected[1])
        return {"losses": losses, "losses_of_cpu": expected[0], "furthest": dict(list(found.items())[:5]),
                "distance": max(found.values(), default=0.0)}

    names = [f"{network} {precision}" for precision in precisions]
    kept = {row["name"] for row in bench.earlier.get("rows", []) if "error" not in row}
    if not kept.issuperset(names):  # the new rows need the CPU's gradient, so the CPU runs again
        bench.earlier = {"rows": [row for row in bench.earlier.get("rows", []) if row["name"] != f"{network} of CPUs"]}
    if bench.attempt(f"{network} of CPUs", two_cpu_runs):
        for name in names:
            bench.attempt(name, lambda name=name: device_run(name.rpartition(" ")[2]))


def steps(bench):
    first_gradients(bench, "lenet", bench.settings.configs / "lenet-digits.json", PRECISIONS[:1])
    for network, batch in () if bench.settings.dry_run else (("resnet18", 8), ("resnet50", 4)):
        first_gradients(bench, f"{network} without kinks", written_job(bench, network, batch, smooth), PRECISIONS)
        first_gradients(bench, network, written_job(bench, network, batch), PRECISIONS[:1])
    distances = {row["name"]: row["distance"] for row in bench.rows if "distance" in row}
    ratios = {name: far / max(distances[name.rpartition(" ")[0] + " of CPUs"], LEAST_DISTANCE)
              for name, far in distances.items() if not name.endswith(" of CPUs")}
    good = all(ratio <= BAR_OF_GRADIENTS for name, ratio in ratios.items() if name.endswith("fp32"))
    return good and bench.all_measured(), (
        "distance of the first gradient from the CPU's, divided by the distance of two CPU runs: "
        + ", ".join(f"{name} {ratio:.1f}" for name, ratio in ratios.items()))


# Equal bits.

def hashes(bench):
    """Four runs give equal bits. The last run uses no CUDA graphs. If the smoke stage disabled graphs, no run uses
    them."""
    length = 3 if bench.settings.dry_run else 50
    jobs = [("lenet", lambda: bench.settings.configs / "lenet-digits.json", "fp32", length)]
    if not bench.settings.dry_run:
        jobs.append(("resnet18", lambda: written_job(bench, "resnet18", 32), "bf16", 6))
    for network, make, precision, count in jobs:
        def four_runs(make=make, precision=precision, count=count):
            job, sets = make(), [f"train.steps={count}", "data.test=null"]
            return {"hashes": [bench.train(job, precision=precision, sets=[*sets, *more])[0]["weights_sha256"]
                               for more in ([], [], [], ["device.graphs=false"])]}
        bench.attempt(f"{network} {precision}", four_runs)
    found = {row["name"]: len(set(row["hashes"])) for row in bench.rows if "hashes" in row}
    return bench.all_measured() and set(found.values()) == {1}, ", ".join(
        f"{name}: {count} different weight hash(es) in 4 runs" for name, count in found.items())


def hash_of_devices(bench, devices, count):
    """The weights hash of a run with two logical shards, on one device or on two devices with one shard each."""
    job, threads = bench.settings.configs / "lenet-digits.json", "2" if "," in devices else "1"
    return bench.train(job, device=devices, extra=["--threads", threads], sets=[
        f"train.steps={count}", "data.batch_per_worker=64", "cluster.logical_shards=2"])[0]["weights_sha256"]


def with_cpu(bench, count):
    """Runs a CPU and the device in one job, and compares their replicas after each step."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    daemons = [bench.start([bench.program(program), "--coordinator", address, "--once", *more])
               for program, *more in (("poseidon-worker", "--device", "cpu"),
                                      ("poseidon-worker", "--device", bench.settings.device), ("poseidon-server",))]
    try:
        summary = bench.train(bench.settings.configs / "lenet-digits.json", device="cpu", limit=120, extra=[
            "--workers", "2", "--servers", "1", "--external", "--listen", address], sets=[
                f"train.steps={count}", "train.checkpoint_every=1", "train.keep_checkpoints=1",
                "cluster.logical_shards=8", "cluster.balance=speed"], helpers=daemons)[0]
    except ProgramFailed as error:
        said = "; ".join(f"{daemon.name}: {daemon.last_lines()}" for daemon in daemons)
        raise ProgramFailed(f"{error}; daemons: {said}", error.output) from error
    finally:
        for daemon in daemons:
            daemon.stop()
    return {"device": summary["device"], "steps": summary["steps"], "train_loss": summary["train_loss"]}


def together(bench):
    device = bench.settings.device
    count = 5 if bench.settings.dry_run else 200
    bench.attempt("one worker, the device twice", lambda: {
        "hashes": [hash_of_devices(bench, devices, count) for devices in (device, f"{device},{device}")]})
    bench.attempt("the device and a CPU", lambda: with_cpu(bench, count))
    twice, mixed = bench.rows
    different = len(set(twice.get("hashes", [])))
    return different == 1 and mixed.get("steps") == count, (
        f"same device twice: {different} weight hash(es); "
        f"with a CPU: {mixed.get('steps', 'no')} steps with equal replicas")
