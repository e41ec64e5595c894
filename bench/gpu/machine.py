"""Stages of first_light about the machine: its properties and limits, whether a job trains, and compute-sanitizer."""
import concurrent.futures
import hashlib
import json
import pathlib
import platform
import shutil

from measuring import ProgramFailed, Skipped

LOW_RATE = 0.7  # of a copy's bandwidth; memory-bound kernels below it are listed
FIRST_LOAD = 180  # seconds; limit for a program that may be the first to read CUDA's libraries from disk
BLOCK = 8 << 20
LIBRARIES = ("libcudnn", "libcublas", "libnvrtc", "libposeidon_cuda")


def read_file(file):
    count = 0
    with file.open("rb", buffering=0) as opened:
        while block := opened.read(BLOCK):
            count += len(block)
    return count


def read_libraries(bench):
    """Reads CUDA's libraries once, in parallel, so that later programs find them in memory."""
    folders = [*bench.environment.get("LD_LIBRARY_PATH", "").split(":"), bench.settings.programs.parent / "lib"]
    files = {file.resolve() for folder in folders if folder and pathlib.Path(folder).is_dir()
             for file in pathlib.Path(folder).iterdir() if file.name.startswith(LIBRARIES) and file.is_file()}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(read_file, sorted(files)))
    return {"folders": list(map(str, folders)), "files": len(files), "bytes": sum(sizes)}


def build_of(programs):
    """Identifies the build by the bytes of its main program and of its GPU library."""
    digest = hashlib.sha256()
    for file in (programs / "poseidon-train", programs.parent / "lib" / "libposeidon_cuda.so"):
        if file.exists():
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def sandbox():
    """The kind of virtual machine. Some kinds refuse compute-sanitizer."""
    release = platform.release()
    # gVisor always reports this version of Linux.
    return "gVisor" if release.startswith("4.4.0") else "Firecracker" if "-fc" in release else ""


def described(bench):
    """The output of the system's programs that describe the machine."""
    found = {}
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
    return found


def properties(bench):
    bench.results = {"host": platform.platform(), "python": platform.python_version(), "sandbox": sandbox(),
                     "build": build_of(bench.settings.programs), "libraries": read_libraries(bench), **described(bench)}
    command = [bench.program("poseidon-train"), "--devices", "--json"]
    devices = bench.results["devices"] = json.loads(bench.run(command, FIRST_LOAD))
    said = ", ".join(gpu.get("name", "?") for gpu in devices.get("gpus", []))
    return bool(said) or bench.settings.is_cpu, said or f"no GPU: {devices.get('why_no_gpus', 'none listed')}"


def identity(results):
    """The values that must be equal in all calls that merge their records."""
    return {"build": results.get("build"),
            "GPUs": [gpu.get("name") for gpu in (results.get("devices") or {}).get("gpus", [])]}


# Training at all.

def trained(bench, precision, sets):
    summary, metrics, folder = bench.train(
        bench.settings.configs / "lenet-digits.json", precision=precision, limit=FIRST_LOAD,
        sets=["train.steps=8", "train.log_every=1", "train.test_every=0", "data.test.samples=64", *sets])
    console = folder / "console.log"
    lines = console.read_text(encoding="utf-8").splitlines() if console.exists() else []
    return {"precision": precision, "losses": [line["loss"] for line in metrics if line.get("type") == "train"],
            "samples_per_second": summary["samples_per_second"],
            "warnings": [line for line in lines if "warning" in line]}


def smoke(bench):
    """Trains LeNet in fp32 and bf16. If a run fails, tries both again without CUDA graphs. All later stages use the
    settings that work in more precisions."""
    worked = {}
    bench.results = {"sets": []}
    for sets in ((), ("device.graphs=false",)):
        worked[sets] = [precision for precision in ("fp32", "bf16") if bench.attempt(
            " ".join(("lenet", precision, *sets)), lambda precision=precision, sets=sets: trained(
                bench, precision, sets))]
        if len(worked[sets]) == 2:
            break
    best = max(worked, key=lambda sets: len(worked[sets]))
    bench.results = {"sets": list(best), "trains": bool(worked[best])}
    refused = any("refused" in line for row in bench.rows for line in row.get("warnings", []))
    return len(worked[()]) == 2, (
        f"LeNet trains in {' and '.join(worked[best]) or 'no precision'}" + (f" only with {best[0]}" if best else "")
        + ("; CUDA refused graphs" if refused else ""))


# The limits of the machine.

def slow_kernels(measured):
    """The kernels that failed or that are below LOW_RATE of a copy's bandwidth."""
    return [f"{precision} {row['name']} {row.get('pass', '')}: {row.get('error') or round(row['of_copy'], 2)}"
            for precision, rows in measured.get("kernels", {}).items() for row in rows
            if "error" in row or row["of_copy"] < LOW_RATE]


def errors_in(value):
    """All values of keys "error", at any depth."""
    if isinstance(value, dict):
        return [one for key, part in value.items() for one in ([part] if key == "error" else errors_in(part))]
    return [one for part in value for one in errors_in(part)] if isinstance(value, list) else []


def ceilings(bench):
    flags = (["--cpu"] if bench.settings.is_cpu else []) + (["--small"] if bench.settings.dry_run else [])
    starts_without_gpu(bench, "bench_gpu", "--small")
    said = bench.run([bench.program("bench_gpu"), *flags], 240, accept=(0, 1))
    measured = bench.results = json.loads(said or '{"error": "no result"}')
    wrong = errors_in(measured)
    if "launch_us" not in measured:
        raise ProgramFailed(f"bench_gpu: {measured.get('error')}")
    measured["slow"] = slow_kernels(measured)
    peaks = measured["peak_tflops"] = {
        precision: max((row.get("forward_tflops", 0) for row in rows), default=0)
        for precision, rows in measured.get("products", {}).items()}
    count = sum(map(len, measured.get("kernels", {}).values()))
    return not wrong, (
        f"copy {measured['copies']['device_gbs']:.0f} GB/s, launch {measured['launch_us']:.1f} us, products "
        + ", ".join(f"{name} {peak:.1f}" for name, peak in peaks.items())
        + f" TFLOP/s; {count - len(measured['slow'])} of {count} kernels reach {LOW_RATE:.0%} of the copy bandwidth"
        + (f"; {len(wrong)} errors: {wrong[0]}" if wrong else ""))


def starts_without_gpu(bench, name, *arguments):
    """In a dry run on a CPU, starts a program that needs a GPU. It must report the missing GPU and exit with 2, or
    succeed if the machine has a GPU."""
    if bench.settings.is_cpu and (bench.settings.programs / name).exists():
        bench.run([bench.program(name), *arguments], 120, accept=(0, 2))


# compute-sanitizer.

def unless_refused(bench, work):
    """Calls `work`. Raises Skipped if compute-sanitizer refuses this machine."""
    try:
        return work()
    except ProgramFailed as error:
        last = (bench.commands or [{}])[-1]
        said = last.get("output", "") + last.get("errors", "")
        if "Device not supported" not in said and "error 999" not in said:
            raise
        raise Skipped(f"compute-sanitizer refuses this machine ({sandbox() or 'unknown kind'}): {error}") from error


def sanitizer(bench):
    """Checks the layers first, because they have most kernels. Omits initcheck, because Poseidon clears all device
    memory."""
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    stand_in = bench.settings.is_cpu and bench.settings.dry_run
    if not stand_in and (bench.settings.is_cpu or not pathlib.Path(tool).exists()):
        raise Skipped("compute-sanitizer is not installed")
    cases = "--test-case=*relu*" if bench.settings.dry_run else "--test-case=cuda *,*on a GPU*,update*"
    sets = ["train.steps=2", "data.batch_per_worker=8", "data.test.samples=16"]

    def layers_with(wrapper):
        return {"said": bench.run([*wrapper, layer_tests(bench), cases], 200)[-400:]}

    def lenet_with(wrapper):
        _, metrics, _ = bench.train(bench.settings.configs / "lenet-digits.json", sets=sets, wrapper=wrapper, limit=150)
        return {"losses": [line["loss"] for line in metrics if line.get("type") == "train"]}

    for what, run in (("layers", layers_with), ("lenet", lenet_with)):
        for check in ("memcheck", "racecheck"):
            wrapper = () if stand_in else (tool, "--tool", check, "--error-exitcode", "9", "--target-processes", "all")
            bench.attempt(f"{what} {check}", lambda run=run, wrapper=wrapper: unless_refused(
                bench, lambda: run(wrapper)))
    clean = sum("error" not in row for row in bench.rows)
    return bench.all_measured(), f"{clean} of {len(bench.rows)} checks are clean"


def layer_tests(bench):
    """The program with the layer tests: on a GPU, or the same tests on a CPU."""
    if not bench.settings.is_cpu:
        return bench.program("test_layers_gpu")
    starts_without_gpu(bench, "test_layers_gpu", "--count")
    names = ["test_layers_cuda", *(f"test_layers_v{level}" for level in (3, 2)), "test_layers"]
    found = [name for name in names if (bench.settings.programs / name).exists()]
    if not found:
        raise Skipped("this build has no layer tests for a CPU; checked only that test_layers_gpu starts")
    return bench.program(found[0])
