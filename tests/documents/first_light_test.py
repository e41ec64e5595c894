#!/usr/bin/env python3
"""Tests bench/gpu/first_light without a GPU. Emulated programs replace the real ones; some of them fail."""
import array
import json
import math
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GPU = ROOT / "bench" / "gpu"
sys.path.insert(0, str(GPU))
sys.dont_write_bytecode = True
import proofs  # noqa: E402  # pylint: disable=wrong-import-position
import stages  # noqa: E402  # pylint: disable=wrong-import-position
import tensors  # noqa: E402  # pylint: disable=wrong-import-position
import trace_overlap  # noqa: E402  # pylint: disable=wrong-import-position
import kernel_code  # noqa: E402  # pylint: disable=wrong-import-position,wrong-import-order
import unproven  # noqa: E402  # pylint: disable=wrong-import-position,wrong-import-order

REPORT = """<doctest><TestSuite>
<TestCase name="skipped" filename="a.cpp" line="1" skipped="true"/>
<TestCase name="a &lt; b" filename="a.cpp" line="2">
<OverallResultsAsserts successes="3" failures="0" test_case_success="true"/></TestCase>
<TestCase name="wrong" filename="a.cpp" line="3"><Expression success="false"/>
<OverallResultsAsserts successes="3" failures="1" test_case_success="false"/></TestCase>
<TestCase name="died" filename="a.cpp" line="4">
"""

# Emulates poseidon-train: fails with bf16, and gives different weights with --device cpu.
TRAIN = """#!/usr/bin/env python3
import json, pathlib, struct, sys
arguments = sys.argv[1:]
if "--devices" in arguments:
    print(json.dumps({"gpus": [{"name": "Played GPU"}]}))
    sys.exit()
if "device.precision=bf16" in arguments:
    sys.exit("played: no bf16")
if "--time" in arguments:
    print(json.dumps({"layers": [{"name": "conv1", "type": "convolution", "forward_ms": 2.0, "backward_ms": 4.0,
          "forward_gflops": 500.0, "backward_gflops": 0.0}], "forward_ms": 2.0, "backward_ms": 4.0}))
    sys.exit()
folder = pathlib.Path(arguments[arguments.index("--output") + 1])
(folder / "checkpoints").mkdir(parents=True)
header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
value = 2.0 if arguments[arguments.index("--device") + 1] == "cpu" else 2.5
(folder / "checkpoints" / "step-3.safetensors").write_bytes(
    struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.0, value))
(folder / "metrics.jsonl").write_text(json.dumps({"type": "train", "loss": 1.5, "samples_per_second": 10.0}))
(folder / "summary.json").write_text(json.dumps({"weights_sha256": "aa", "samples_per_second": 10.0, "test_top1": 0.995,
    "train_loss": 0.1, "wall_seconds": 1.0}))
"""


def expect(got, expected):
    if got != expected:
        sys.exit(f"expected {expected}, got {got}")


def reports_are_read():
    expect(stages.cases_of(REPORT), {"a < b": True, "wrong": False})
    expect(stages.names_listed(REPORT), ["skipped", "a < b", "wrong", "died"])
    expect(stages.pattern_of("x: a, b"), "x: a? b")


def distances_know_what_is_no_number():
    expect(tensors.distance(array.array("f", [1, 2]), array.array("f", [1, 2])), 0.0)
    expect(tensors.distance(array.array("f", [1, 2.5]), array.array("f", [1, 2])), 0.25)
    expect(tensors.distance(array.array("f", [1, math.nan]), array.array("f", [1, 2])), math.inf)
    expect(tensors.distances({}, {"w": []}), {"w": math.inf})


def tensors_are_read():
    with tempfile.TemporaryDirectory() as folder:
        header = json.dumps({"__metadata__": {}, "w": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}).encode()
        file = pathlib.Path(folder) / "w.safetensors"
        file.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack("<2f", 7, 3))
        expect(list(tensors.read(file)["w"]), [3.0])


def sending_beside_computing_is_found():
    def span(kind, begin, end, pid=1, tid=0, name="conv1"):
        return {"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": tid, "ts": begin, "dur": end - begin}
    events = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
              for pid, name in ((1, "worker 0"), (2, "server 0"))]
    events += [span("backward", 0, 1000), span("send", 500, 1500), span("send", 600, 900), span("send", 0, 9000, 2)]
    expect(trace_overlap.shares(events),
           {"workers": 1, "sent_ms": 1.0, "hidden": 0.5, "waited_ms": 0.0, "waited": 0.0})
    # The device's own times replace the times at which the host issued the work.
    events += [{"ph": "M", "name": "thread_name", "pid": 1, "tid": 7, "args": {"name": "device"}},
               span("wait", 0, 200, tid=7, name="batch"), span("forward", 200, 700, tid=7),
               span("wait", 700, 800, tid=7), span("backward", 800, 1700, tid=7)]
    found = trace_overlap.shares(events)
    expect((found["hidden"], found["waited_ms"], round(found["waited"], 4)), (0.9, 0.1, round(100 / 1700, 4)))


def layers_are_beside_the_peak():
    rows = stages.beside_peak([{"name": "c", "type": "convolution", "forward_ms": 2.0, "backward_ms": 1.0,
                                      "forward_gflops": 500.0, "backward_gflops": 0.0}], 2.0)
    expect(rows[0]["forward_at_peak_ms"], 0.5)  # 1e9 operations at 2 TFLOP/s
    expect("backward_at_peak_ms" in rows[0], False)


def layers_are_beside_their_prediction():
    lines = ["network\tbatch\tprecision\tkind\tname\tcalls\tMB\tGFLOP\tmicroseconds",
             "n\t8\tfp32\tpart\trelu forward\t2\t1.0\t0.0\t500.0",
             "n\t8\tfp32\tkernel\trelu backward\t2\t1.0\t0.0\t500.0"]
    predicted = stages.predictions(lines)
    expect(predicted, {("n", 8, "fp32"): {"relu forward": 0.5}})
    layer = {"type": "relu", "forward_ms": 0.5, "backward_ms": 1.0}
    rows = stages.beside_prediction({"layers": [layer, layer]}, predicted["n", 8, "fp32"])
    expect(rows, [{"name": "relu forward", "ms": 1.0, "predicted_ms": 0.5, "times": 2.0}])


def every_timed_network_is_predicted():
    with stages.PREDICTIONS.open(encoding="utf-8") as file:
        predicted = stages.predictions(file)
    for name, batch in stages.TIMED:
        for precision in stages.PRECISIONS:
            expect(predicted[name.removesuffix("-random"), batch, precision]["update"] > 0, True)


def played_folder(folder):
    tests = f"#!/bin/sh\ncat <<'END'\n{REPORT}END\ncase $2 in --list*) ;; *) exit 1 ;; esac\n"
    for name, text in (("poseidon-train", TRAIN), ("test_layers_gpu", tests)):
        program = folder / name
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)


def stages_go_on_after_failures():
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "bin").mkdir()
        played_folder(folder / "bin")
        only = "properties,ceilings,parity,steps,layers,graphs,trace,accuracy"
        ended = subprocess.run(
            [sys.executable, GPU / "first_light", "--bin", folder / "bin", "--output", folder / "out", "--only", only],
            capture_output=True, text=True, check=False, env={**os.environ, "POSEIDON_DATA": ""})
        expect((ended.returncode, ended.stderr), (1, ""))
        found = {name: record for file in (folder / "out").glob("*.json")
                 for name, record in json.loads(file.read_text(encoding="utf-8")).items()}
        expect({name: record["status"] for name, record in found.items()},
               {"properties": "passed", "ceilings": "skipped", "parity": "failed", "steps": "failed",
                "layers": "failed", "graphs": "skipped", "trace": "failed", "accuracy": "passed"})
        rows = {row["name"]: row for row in found["steps"]["results"]}
        expect(rows["lenet fp32"]["distance"], 0.25)
        expect(rows["resnet50 bf16"]["error"], "poseidon-train: exit 1: played: no bf16")
        expect(found["parity"]["results"]["together"], {"cases": 2, "passed": 1})
        expect(found["parity"]["results"]["wrong"], ["skipped", "wrong", "died"])
        expect(len(list((folder / "out").iterdir())), 7)
        expect((folder / "out" / "summary.md").read_text(encoding="utf-8").count("\n"), 10)


def only_what_passed_on_a_gpu_is_proof():
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "properties.json").write_text(json.dumps({"properties": {"results": {
            "devices": {"gpus": [{"name": "H100"}]}, "nvidia_smi": ["name, driver", "H100, 580.1"]}}}),
            encoding="utf-8")
        gpu = {"gpu": "H100", "driver": "580.1"}
        for status, program, expected in (("passed", "bin/test_layers_gpu", gpu),
                                          ("passed", "bin/test_layers_cuda", None),
                                          ("failed", "bin/test_layers_gpu", None)):
            (folder / "parity.json").write_text(json.dumps({"parity": {
                "status": status, "commands": [{"command": program}]}}), encoding="utf-8")
            expect(proofs.passed_on_a_gpu(folder), expected)


def only_kernels_that_ran_are_proven():
    class Kernel:  # pylint: disable=too-few-public-methods
        code = "aa"
    types = {"a": "poseidon::cuda::KernelLaunch<poseidon::layers::cuda::(anonymous namespace)::K<float> >",
             "b": "poseidon::cuda::(anonymous namespace)::CopyOperation"}
    ran = proofs.names_that_ran(list(types), lambda symbols: {symbol: types[symbol] for symbol in symbols},
                                kernel_code.short_name)
    expect(ran, {"K<float>"})
    found = proofs.records({"K<float>": Kernel, "L": Kernel}, ran, {"gpu": "H100", "driver": "1"}, "today")
    expect([set(record) == unproven.KEYS and record["kernel"] for record in found], ["K<float>"])


if __name__ == "__main__":
    for test in (reports_are_read, distances_know_what_is_no_number, tensors_are_read,
                 sending_beside_computing_is_found, layers_are_beside_the_peak, layers_are_beside_their_prediction,
                 every_timed_network_is_predicted, stages_go_on_after_failures, only_what_passed_on_a_gpu_is_proof,
                 only_kernels_that_ran_are_proven):
        test()
