#!/usr/bin/env python3
"""Compares training speed and memory with PyTorch, on the same cores and in the same run.

    python3 bench/training.py [--build build/release] [--python PYTHON_WITH_TORCH] [--threads 1,2] [--rounds 5]
         [--zoo] [--networks NAME,...] [--isa x86-64-v3 | --precision bf16] [--record bench/results]

With --isa both programs use only that instruction-set level: poseidon-train by its flag, PyTorch by ATEN_CPU_CAPABILITY
and ONEDNN_MAX_CPU_ISA.

Every round runs each program for a few steps, one after another, so that a slow period of the machine affects all of
them. A cell is the median over the steps of all rounds, without the first step of each round. PyTorch runs in both
memory formats, and the better one counts. For PyTorch, glibc keeps freed memory, which makes it faster. Poseidon is
measured as users run it: poseidon-train with its loader, on generated data.

With --zoo the script measures every network of configs/networks with batches of 8. With --networks it measures some of
them again. The rows of the other networks stay in the results file, each with the commit of its measurement.

With --precision bf16 PyTorch runs in all its modes: both memory formats, fp32 and autocast to bf16, compiled and not
compiled. After the first round only the two fastest modes run, and the better one counts.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import network_file
import record

HERE = pathlib.Path(__file__).resolve().parent
# network, job, batch, steps in a round
CASES = [("cifar10_quick", "cifar10_quick-random", 100, 40), ("alexnet", "alexnet-random", 32, 4),
         ("vgg11", "vgg11-random", 8, 3), ("resnet50", "resnet50-random", 8, 3)]
NETWORKS = HERE.parent / "configs" / "networks"
# The job for networks whose own jobs train on other data or in another way than the peer.
PLAIN_JOB = "alexnet-random"
ZOO = [(file.stem, PLAIN_JOB, 8, 3) for file in sorted(NETWORKS.glob("*.json"))]
# For each level, its names for PyTorch's own kernels and for PyTorch's oneDNN.
LEVELS = {"x86-64-v2": ("default", "SSE41"), "x86-64-v3": ("avx2", "AVX2"), "x86-64-v4": ("avx512", "AVX512_CORE_AMX")}
FORMATS = {"NCHW": [], "channels_last": ["--channels-last"]}
MODES = {", ".join([layout, *more]): [*flags, *(f"--{word}" for word in more)] for layout, flags in FORMATS.items()
         for more in ([], ["bf16"], ["compile"], ["bf16", "compile"])}
PEERS = {"fp32": FORMATS, "bf16": MODES}
PEER_COLUMNS = {"fp32": [record.column("nchw_ms", "PyTorch NCHW ms", 1),
                         record.column("channels_last_ms", "channels_last ms", 1)],
                "bf16": [record.column("mode", "PyTorch's fastest mode"), record.column("peer_ms", "PyTorch ms", 1)]}


def columns_of(options):
    return [record.column("network", "network"), record.column("batch", "batch", 0),
            record.column("threads", "threads", 0), *PEER_COLUMNS[options.precision],
            record.column("poseidon_ms", "Poseidon ms", 1, spread=True),
            record.column("samples_per_second", "samples/s", 1),
            record.column("times_as_fast", "times as fast", 2, bold=True, spread=True),
            record.column("peer_mib", "peak MiB, PyTorch", 0), record.column("poseidon_mib", "Poseidon", 0),
            *([record.column("commit", "commit")] if options.zoo else [])]


def run(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nexit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def network_of(name):
    """The options that change the plain job to this network: the network, and random data that fits it."""
    network = json.loads((NETWORKS / f"{name}.json").read_text())
    layers = network_file.Expansion(network).layers
    outputs = {layer["name"]: layer.get("outputs") for layer in layers}
    classes = [outputs[layer["inputs"][0]] for layer in layers if layer["type"] == "softmax_loss"]
    data = {"type": "random", "samples": 1024, "classes": classes[-1] if classes else 2, **network["input"]}
    return ["--set", f"network={NETWORKS / name}.json", "--set", f"data.train={json.dumps(data)}"]


def poseidon(options, job, batch, threads, steps, more=()):
    with tempfile.TemporaryDirectory() as folder:
        # /usr/bin/time would need a package. A Python process reports the memory use of its child instead.
        command = [options.build / "bin" / "poseidon-train", HERE.parent / "configs" / f"{job}.json",
                   "--threads", threads, "--max-steps", steps + 1, "--json", "--output", pathlib.Path(folder) / "run",
                   "--set", f"data.batch_per_worker={batch}", "--set", "train.log_every=1",
                   "--set", "train.checkpoint_every=0", "--set", "data.test=null",
                   *(["--isa", options.isa] if options.isa else []), *more]
        script = ("import json,resource,subprocess,sys; r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL); "
                  "print(json.dumps([r.returncode,resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss/1024]))")
        code, memory = json.loads(run([sys.executable, "-c", script, *map(str, command)]))
        if code != 0:
            sys.exit(f"{' '.join(map(str, command))}: exit code {code}")
        lines = (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()
        records = [json.loads(line) for line in lines]
        times = [r["compute_ms"] + r["wait_ms"] for r in records if r["type"] == "train"]
        return times[1:], memory


def pytorch(options, network, batch, threads, steps, flags):
    keep = str(1 << 36)
    environment = dict(os.environ, MALLOC_TRIM_THRESHOLD_=keep, MALLOC_MMAP_THRESHOLD_=keep)
    if options.isa:
        environment["ATEN_CPU_CAPABILITY"], environment["ONEDNN_MAX_CPU_ISA"] = LEVELS[options.isa]
    out = json.loads(run([options.python, HERE / "pytorch_step.py", network, "--batch", str(batch), "--threads",
                          str(threads), "--steps", str(steps), *flags], env=environment).splitlines()[-1])
    return out["step_ms"], out["peak_rss_mib"], out["version"]


def measure(options, case, threads):
    """Returns the step times of each program, with a list for each round, its peak memory, and PyTorch's version."""
    network, job, batch, steps = case
    times, memory, version = {}, {}, ""
    peers = PEERS[options.precision]
    for _ in range(options.rounds):
        for name, flags in peers.items():
            step_ms, rss, version = pytorch(options, network, batch, threads, steps, flags)
            times.setdefault(name, []).append(step_ms)
            memory[name] = max(memory.get(name, 0), rss)
        step_ms, rss = poseidon(options, job, batch, threads, steps,
                                [*(network_of(network) if job == PLAIN_JOB else []),
                                 "--set", f"device.precision={options.precision}"])
        times.setdefault("Poseidon", []).append(step_ms)
        memory["Poseidon"] = max(memory.get("Poseidon", 0), rss)
        peers = {name: peers[name] for name in sorted(peers, key=lambda name: median(times[name]))[:2]}
    return {name: times[name] for name in [*peers, "Poseidon"]}, memory, version


def median(rounds):
    return statistics.median(step for steps in rounds for step in steps)


def row_of(precision, case, threads, times, memory):
    network, _, batch, _ = case
    own = times.pop("Poseidon")
    ms = {name: record.figure(rounds) for name, rounds in times.items()}
    fastest = min(times, key=lambda name: median(times[name]))
    each = [min(statistics.median(rounds[i]) for rounds in times.values()) / statistics.median(steps)
            for i, steps in enumerate(own)]
    peer = ({"nchw_ms": ms["NCHW"], "channels_last_ms": ms["channels_last"]} if precision == "fp32" else
            {"mode": fastest, "peer_ms": ms[fastest]})
    return {"network": network, "batch": batch, "threads": threads, **peer, "poseidon_ms": record.figure(own),
           "samples_per_second": record.figure([[1e3 * batch / step for step in steps] for steps in own]),
           "times_as_fast": record.ratio(median(times[fastest]) / median(own), each),
           "peer_mib": round(min(memory[name] for name in times)), "poseidon_mib": round(memory["Poseidon"])}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build" / "release")
    parser.add_argument("--python", default=sys.executable, help="Python interpreter with PyTorch")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--zoo", action="store_true", help="every network of configs/networks, with batches of 8")
    parser.add_argument("--networks", help="networks to measure; default: all")
    parser.add_argument("--isa", choices=LEVELS)
    parser.add_argument("--precision", choices=PEERS, default="fp32")
    record.add_options(parser, "training")
    options = parser.parse_args()
    if options.isa and options.precision != "fp32":
        parser.error("--isa requires --precision fp32")
    cases = ZOO if options.zoo else CASES
    networks = options.networks.split(",") if options.networks else [case[0] for case in cases]
    rows, version, columns = [], "", columns_of(options)
    print("\n".join(record.head(columns)), flush=True)
    for case in cases:
        if case[0] not in networks:
            continue
        for threads in options.threads.split(","):
            times, memory, version = measure(options, case, int(threads))
            rows.append({**row_of(options.precision, case, int(threads), times, memory),
                         **({"commit": record.commit()} if options.zoo else {})})
            print(record.line(columns, rows[-1]), flush=True)
    ratios = [row["times_as_fast"]["median"] for row in rows]
    print(f"\nGeometric mean: {statistics.geometric_mean(ratios):.2f} times as fast as PyTorch {version} "
          f"(its fastest mode), lowest {min(ratios):.2f}.")
    if options.zoo:
        rows = record.with_kept(options, rows, ("network", "threads"))
    record.write(options, columns, rows, without=["--networks"] if options.zoo else [], peer=f"PyTorch {version}",
                 about=f"training, both programs limited to {options.isa}" if options.isa else "")


if __name__ == "__main__":
    main()
