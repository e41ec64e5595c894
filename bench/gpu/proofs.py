"""Makes records for docs/gpu-proofs.json (tests/cuda_code/unproven.py): the kernels that first_light's results prove.

The kernels that the parity cases launch are known from the same cases on the host. There, test_layers_cuda writes the
types of the launched kernels to the file that POSEIDON_KERNELS names.
"""
import datetime
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "cuda_code"))


def passed_on_a_gpu(folder):
    """The GPU and its driver, for the records. None unless all cases passed on a GPU: the kernels that a failed case
    launched are not known."""
    read = lambda name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))  # noqa: E731
    parity, properties = read("parity")["parity"], read("properties")["properties"]["results"]
    gpus = properties["devices"]["gpus"]
    on_gpu = any("test_layers_gpu" in entry["command"] for entry in parity["commands"])
    if parity["status"] != "passed" or not gpus or not on_gpu:
        return None
    driver = properties["nvidia_smi"][-1].split(",")[1].strip() if "nvidia_smi" in properties else "unknown"
    return {"gpu": gpus[0]["name"], "driver": driver}


def names_that_ran(types, demangled, short_name):
    """Selects the kernels among the types of operations. Returns their names in the library."""
    launch = "poseidon::cuda::KernelLaunch<"
    return {short_name(name.replace(launch, "run_kernel<", 1)) for name in demangled(types).values()
            if name.startswith(launch)}


def records(kernels, ran, gpu, today):
    """One record for each kernel of the library that the cases launch."""
    return [{"code": kernel.code, "kernel": name, "by": "bench/gpu/first_light --only properties,parity", **gpu,
             "date": today, "result": "passed"} for name, kernel in kernels.items() if name in ran]


def write(folder, library, ran):
    import kernel_code  # pylint: disable=import-outside-toplevel  # it is in the sources only, not in archives
    gpu = passed_on_a_gpu(folder)
    if gpu is None:
        sys.exit(f"first_light: {folder}: expected a parity stage that passed on a GPU")
    # c++filt demangles symbols, not types. The symbol of a type's name contains the type.
    types = [f"_ZTS{name}" for name in ran.read_text(encoding="utf-8").split()]

    def plain(symbols):
        return {symbol: name.removeprefix("typeinfo name for ")
                for symbol, name in kernel_code.demangled(symbols).items()}

    names = names_that_ran(types, plain, kernel_code.short_name)
    print(json.dumps(records(kernel_code.read_kernels(library), names, gpu, datetime.date.today().isoformat()),
                     indent=1))
    return 0
