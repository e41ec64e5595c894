"""Records for docs/gpu-proofs.json (tests/cuda_code/unproven.py): which kernels the results of first_light prove.

Which kernels the cases of parity launch is told by the same cases on the host, where POSEIDON_KERNELS names a file that
test_layers_cuda writes their types to.
"""
import datetime
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "cuda_code"))


def passed_on_a_gpu(folder):
    """What the records say of the GPU; None unless all cases passed on one. Which kernels a case that failed ran is not
    known."""
    read = lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))  # noqa: E731
    parity, properties = read("parity")["parity"], read("properties")["properties"]["results"]
    gpus = properties["devices"]["gpus"]
    on_gpu = any("test_layers_gpu" in entry["command"] for entry in parity["commands"])
    if parity["status"] != "passed" or not gpus or not on_gpu:
        return None
    driver = properties["nvidia_smi"][-1].split(",")[1].strip() if "nvidia_smi" in properties else "unknown"
    return {"gpu": gpus[0]["name"], "driver": driver}


def names_that_ran(types, demangled, short_name):
    """Of the types of operations those of kernels, as the library calls them."""
    launch = "poseidon::cuda::KernelLaunch<"
    return {short_name(name.replace(launch, "run_kernel<", 1)) for name in demangled(types).values()
            if name.startswith(launch)}


def records(kernels, ran, gpu, today):
    """One for each kernel of the library that the cases launch."""
    return [{"code": kernel.code, "kernel": name, "by": "bench/gpu/first_light --only properties,parity", **gpu,
             "date": today, "result": "passed"} for name, kernel in kernels.items() if name in ran]


def write(folder, library, ran):
    import kernel_code  # pylint: disable=import-outside-toplevel  # only the sources have it
    gpu = passed_on_a_gpu(folder)
    if gpu is None:
        sys.exit(f"first_light: {folder}: not all cases of parity passed on a GPU")
    # c++filt reads symbols: that of a type's name says the type.
    types = [f"_ZTS{name}" for name in ran.read_text(encoding="utf-8").split()]

    def plain(symbols):
        return {symbol: name.removeprefix("typeinfo name for ")
                for symbol, name in kernel_code.demangled(symbols).items()}

    names = names_that_ran(types, plain, kernel_code.short_name)
    print(json.dumps(records(kernel_code.read_kernels(library), names, gpu, datetime.date.today().isoformat()),
                     indent=1))
    return 0
