#!/usr/bin/env python3
"""Tests bench/gpu/first_light without a GPU. Emulated programs replace the real ones; some of them fail."""
import array
import contextlib
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
import correctness  # noqa: E402  # pylint: disable=wrong-import-position
import machine  # noqa: E402  # pylint: disable=wrong-import-position
import proofs  # noqa: E402  # pylint: disable=wrong-import-position
import speed  # noqa: E402  # pylint: disable=wrong-import-position
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

# Emulates poseidon-train. EMULATED lists its faults: no bf16, no graphs, no GPU.
TRAIN = """#!/usr/bin/env python3
import json, os, pathlib, struct, sys, time
arguments, faults = sys.argv[1:], os.environ.get("EMULATED", "")
if "--devices" in arguments:
    found = {"gpus": [] if "no GPU" in faults else [{"name": os.environ.get("EMULATED_NAME", "Emulated GPU")}]}
    print(json.dumps({**found, "why_no_gpus": "emulated"}))
    sys.exit()
if "no bf16" in faults and "device.precision=bf16" in arguments:
    sys.exit("emulated: no bf16")
if "no graphs" in faults and "device.graphs=false" not in arguments:
    sys.exit("emulated: no graphs")
if "--time" in arguments:
    print(json.dumps({"layers": [{"name": "conv1", "type": "convolution", "forward_ms": 2.0, "backward_ms": 4.0,
          "forward_gflops": 500.0, "backward_gflops": 0.0}], "forward_ms": 2.0, "backward_ms": 4.0}))
    sys.exit()
if "--listen" in arguments:
    time.sleep(60)
folder = pathlib.Path(arguments[arguments.index("--output") + 1])
(folder / "checkpoints").mkdir(parents=True)
header = json.dumps({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
value = 2.5 if arguments[arguments.index("--device") + 1] != "cpu" else 2.01 if "--isa" in arguments else 2.0
(folder / "checkpoints" / "step-1.safetensors").write_bytes(
    struct.pack("<Q", len(header)) + header + struct.pack("<2f", 1.0, value))
(folder / "metrics.jsonl").write_text(json.dumps({"type": "train", "loss": 1.5, "samples_per_second": 10.0}))
(folder / "console.log").write_text("warning: emulated")
(folder / "choices.json").write_text("{}")
events = [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "worker 0"}}]
events += [{"ph": "X", "cat": kind, "name": kind, "pid": 1, "tid": 0, "ts": 0, "dur": 9} for kind in ("send", "update")]
(folder / "trace.json").write_text(json.dumps({"traceEvents": events}))
(folder / "summary.json").write_text(json.dumps({"weights_sha256": "aa", "samples_per_second": 10.0, "test_top1": 0.995,
    "train_loss": 0.1, "wall_seconds": 1.0}))
"""

# Emulates the layer tests: the case "died" ends the process, and from the case "fault" on all cases fail.
TESTS = """#!/usr/bin/env python3
import os, sys
cases = ["good", "died", "after", "fault", "last &lt;", "end"]
if "--list-test-cases" in sys.argv:
    print(*(f'<TestCase name="{case}" filename="a.cpp" line="1"/>' for case in cases))
    sys.exit()
limits = {word.split("=")[0]: int(word.split("=")[1]) for word in sys.argv if word.startswith(("--first", "--last"))}
begin, end, faulty = limits.get("--first", 1) - 1, limits.get("--last", len(cases)), False
print(*(f'<TestCase name="{case}" filename="a.cpp" line="1" skipped="true"/>' for case in cases[:begin]))
for case in cases[begin:end]:
    print(f'<TestCase name="{case}" filename="a.cpp" line="1">', flush=True)
    if case == "died":
        os._exit(139)
    faulty |= case == "fault"
    print(f'<OverallResultsAsserts test_case_success="{str(not faulty).lower()}"/></TestCase>')
sys.exit(faulty)
"""

STEP = """#!/bin/sh
echo '{"pieces_ms": 2.0, "warnings": []}'
echo "emulated: a fault" >&2
exit 139
"""

def expect(got, expected):
    if got != expected:
        sys.exit(f"expected {expected}, got {got}")


def reports_are_read():
    expect(correctness.cases_of(REPORT), [("a < b", True), ("wrong", False)])
    expect(correctness.names_listed(REPORT), ["skipped", "a < b", "wrong", "died"])
    expect(correctness.what_failed(REPORT), '<TestCase name="died" filename="a.cpp" line="4"> ')


def only_the_first_failure_at_the_end_counts():
    cases = [("a", True), ("b", False), ("c", True), ("d", False), ("e", False)]
    expect(correctness.independent(cases), [True, False, True, False])
    expect(correctness.independent(cases, failures=0), [True, False, True])
    expect(correctness.independent([]), [])


def distances_know_what_is_no_number():
    expect(tensors.distance(array.array("f", [1, 2]), array.array("f", [1, 2])), 0.0)
    expect(tensors.distance(array.array("f", [3, 2]), array.array("f", [3, 4])), 0.4)
    expect(tensors.distance(array.array("f", [1, math.nan]), array.array("f", [1, 2])), math.inf)
    expect(tensors.distances({}, {"w": []}), {"w": math.inf})


def networks_without_kinks_have_other_layers():
    layers = [{"name": "a", "type": "relu"}, {"type": "pooling", "kernel": 2}, {"type": {"input": "relu"}}]
    expect(correctness.smooth({"layers": layers}), {"layers": [
        {"name": "a", "type": "swish"}, {"type": "pooling", "kernel": 2, "method": "average"},
        {"type": {"input": "relu"}}]})


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


def layers_are_compared_with_the_peak():
    rows = speed.with_peak([{"name": "c", "type": "convolution", "forward_ms": 2.0, "backward_ms": 1.0,
                             "forward_gflops": 500.0, "backward_gflops": 0.0}], 2.0)
    expect(rows[0]["forward_at_peak_ms"], 0.5)  # 1e9 operations at 2 TFLOP/s
    expect("backward_at_peak_ms" in rows[0], False)


def layers_are_compared_with_their_prediction():
    lines = ["network\tbatch\tprecision\tkind\tname\tcalls\tMB\tGFLOP\tmicroseconds",
             "n\t8\tfp32\tpart\trelu forward\t2\t1.0\t0.0\t500.0",
             "n\t8\tfp32\tkernel\trelu backward\t2\t1.0\t0.0\t500.0"]
    predicted = speed.predictions(lines)
    expect(predicted, {("n", 8, "fp32"): {"relu forward": 0.5}})
    layer = {"type": "relu", "forward_ms": 0.5, "backward_ms": 1.0}
    rows = speed.with_prediction({"layers": [layer, layer]}, predicted["n", 8, "fp32"])
    expect(rows, [{"name": "relu forward", "ms": 1.0, "predicted_ms": 0.5, "times": 2.0}])


def every_timed_network_is_predicted():
    with speed.PREDICTIONS.open(encoding="utf-8") as file:
        predicted = speed.predictions(file)
    for name, batch in speed.TIMED:
        for precision in correctness.PRECISIONS:
            expect(predicted[name.removesuffix("-random"), batch, precision]["update"] > 0, True)


def errors_are_found_at_any_depth():
    expect(machine.errors_in({"a": [{"error": "x"}, {"b": {"error": "y", "c": 1}}], "d": 2}), ["x", "y"])


class FirstLight:
    """Runs first_light with emulated programs."""

    def __init__(self, folder, **programs):
        self.folder = folder
        (folder / "bin").mkdir()
        for name, text in {"poseidon-train": TRAIN, **programs}.items():
            program = folder / "bin" / name
            program.write_text(text.replace("/usr/bin/env python3", sys.executable), encoding="utf-8")
            program.chmod(0o755)

    def run(self, only, *more, faults="", **environment):
        """The exit code and the last line of errors."""
        ended = subprocess.run(
            [sys.executable, GPU / "first_light", "--bin", self.folder / "bin", "--output", self.folder / "out",
             *(["--only", only] if only else []), *more], capture_output=True, text=True, check=False,
            env={**os.environ, "POSEIDON_DATA": "", "EMULATED": faults,
                 "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", **environment})
        return ended.returncode, ended.stderr.strip()

    def records(self):
        return {name: record for file in (self.folder / "out").glob("*.json")
                for name, record in json.loads(file.read_text(encoding="utf-8")).items()}

    def statuses(self):
        return {name: record["status"] for name, record in self.records().items()}

    def rows(self, stage):
        return {row["name"]: row for row in self.records()[stage]["rows"]}


@contextlib.contextmanager
def first_light(**programs):
    with tempfile.TemporaryDirectory() as folder:
        yield FirstLight(pathlib.Path(folder), **programs)


def stages_continue_after_failures():
    with first_light(test_layers_gpu=TESTS, bench_step=STEP) as script:
        only = "smoke,graphs,ceilings,parity,steps,hashes,layers,trace,accuracy"
        expect(script.run(only, faults="no bf16"), (1, ""))
        expect(script.statuses(), {
            "properties": "passed", "smoke": "failed", "graphs": "failed", "ceilings": "skipped", "parity": "failed",
            "steps": "failed", "hashes": "failed", "layers": "failed", "trace": "passed", "accuracy": "passed"})
        expect(len(list((script.folder / "out").iterdir())), 6)
        expect((script.folder / "out" / "summary.md").read_text(encoding="utf-8").count("\n"), 12)
        steps = script.rows("steps")
        expect(steps["lenet fp32"]["distance"] > 10 * steps["lenet of CPUs"]["distance"] > 0, True)
        expect(steps["resnet50 without kinks bf16"]["error"],
               "ProgramFailed: poseidon-train: exit 1: emulated: no bf16")
        expect(script.rows("smoke")["lenet fp32"]["warnings"], ["warning: emulated"])
        step = script.rows("graphs")["resnet50 bf16"]
        expect((step["pieces_ms"], step["graphs_error"]), (2.0, "bench_step: exit 139: emulated: a fault"))


def layer_tests_restart_after_a_fault():
    with first_light(test_layers_gpu=TESTS) as script:
        expect(script.run("parity"), (1, ""))
        record = script.records()["parity"]
        expect(record["results"]["cases"], [["good", True], ["died", False], ["after", True], ["fault", False],
                                            ["last <", True], ["end", True]])
        expect(record["results"]["wrong"], ["died", "fault"])
        expect([end["case"] for end in record["results"]["ended"]], ["died"])
        expect(record["summary"], "4 of 6 cases pass; failed: died; fault")
        commands = [entry["command"] for entry in record["commands"] if "--last" not in entry["command"]]
        expect([command.rpartition(" ")[2] for command in commands[1:]], ["--first=1", "--first=3", "--first=5"])


def graphs_are_off_if_training_needs_it():
    with first_light() as script:
        expect(script.run("smoke,accuracy", faults="no graphs"), (1, ""))
        expect(script.statuses(), {"properties": "passed", "smoke": "failed", "accuracy": "passed"})
        expect(script.records()["smoke"]["results"], {"sets": ["device.graphs=false"], "trains": True})
        expect(script.run("smoke", faults="no graphs"), (1, ""))
        # A later call reads the setting from the results files.
        expect(script.run("accuracy", "--again", faults="no graphs"), (0, ""))


        expect(script.run("smoke", "--again", faults="no graphs, no bf16"), (1, ""))
        expect(script.records()["smoke"]["summary"], "LeNet trains in fp32 only with device.graphs=false")


def stages_that_train_are_skipped_if_no_job_trains():
    train = TRAIN.replace('if "--time"', "sys.exit('emulated')\nif \"--time\"")
    with first_light(**{"poseidon-train": train}) as script:
        expect(script.run("smoke,accuracy"), (1, ""))
        expect(script.statuses(), {"properties": "passed", "smoke": "failed", "accuracy": "skipped"})


def calls_merge_their_records():
    with first_light() as script:
        expect(script.run("smoke"), (0, ""))
        expect(script.run("smoke,layers", faults="no bf16"), (1, ""))
        expect(script.statuses(), {"properties": "passed", "smoke": "passed", "layers": "failed"})
        seconds = script.records()["smoke"]["seconds"]
        # The rows without an error are kept.
        expect(script.run("smoke,layers", faults="no bf16"), (1, ""))
        commands = [entry["command"] for entry in script.records()["layers"]["commands"]]
        expect(all("bf16" in command for command in commands) and len(commands), len(speed.TIMED))
        expect(script.run("layers"), (0, ""))
        expect((script.statuses()["layers"], script.records()["smoke"]["seconds"]), ("passed", seconds))
        expect(script.run("smoke", "--again", faults="no bf16"), (1, ""))
        expect(script.statuses()["smoke"], "failed")


def results_of_another_machine_are_refused():
    with first_light() as script:
        expect(script.run("smoke"), (0, ""))
        code, why = script.run("smoke", EMULATED_NAME="Other GPU")
        expect((code, "Other GPU" in why and "name another folder" in why), (1, True))
        expect(script.records()["properties"]["summary"], "Emulated GPU")


def no_gpu_ends_the_script():
    with first_light() as script:
        expect(script.run("", faults="no GPU"), (2, "first_light: stopped: no GPU: emulated"))
        expect(script.statuses(), {"properties": "failed"})


def libraries_of_packages_are_read_and_named():
    with first_light(python="#!/bin/sh\necho '[\"'$PACKAGES'\"]'\n") as script:
        folder = script.folder / "nvidia" / "cudnn" / "lib"
        folder.mkdir(parents=True)
        (folder / "libcudnn.so.9").write_bytes(bytes(1000))
        expect(script.run("smoke", "--python", script.folder / "bin" / "python", LD_LIBRARY_PATH="/first",
                          PACKAGES=str(script.folder / "nvidia")), (0, ""))
        libraries = script.records()["properties"]["results"]["libraries"]
        expect((libraries["folders"][:2], libraries["files"], libraries["bytes"]), (["/first", str(folder)], 1, 1000))


def daemons_give_the_reason():
    worker = "#!/bin/sh\necho 'emulated: no memory' >&2\nexit 1\n"
    with first_light(**{"poseidon-worker": worker, "poseidon-server": "#!/bin/sh\nsleep 60\n"}) as script:
        expect(script.run("together"), (1, ""))
        error = script.rows("together")["the device and a CPU"]["error"]
        expect("stopped because poseidon-worker ended with 1: emulated: no memory" in error, True)
        expect("daemons: poseidon-worker: emulated: no memory" in error, True)
        expect(script.records()["together"]["seconds"] < 30, True)


def a_refused_sanitizer_is_no_failure():
    refusing = "#!/bin/sh\necho '========= Error: Device not supported'\nexit 1\n"
    running = "#!/bin/sh\nwhile [ \"${1#*/bin/}\" = \"$1\" ]; do shift; done\nexec \"$@\"\n"
    tests = TESTS.replace("os._exit(139)", "pass").replace('case == "fault"', "False")
    for tool, status in ((refusing, "skipped"), (running, "passed")):
        with first_light(**{"compute-sanitizer": tool, "test_layers_gpu": tests}) as script:
            expect(script.run("sanitizer"), (0, ""))
            expect(script.statuses()["sanitizer"], status)
            expect(len(script.records()["sanitizer"]["rows"]), 0 if status == "skipped" else 4)


def overlap_is_judged_only_if_the_workers_share_the_gpu():
    control = "#!/bin/sh\n[ \"$1\" = -d ] && exit 0\ncat >>\"$0.said\"\n"
    with first_light(**{"nvidia-cuda-mps-control": control}) as script:
        expect(script.run("trace"), (0, ""))
        expect([row["mps"] for row in script.rows("trace").values()], [True, True])
        expect((script.folder / "bin" / "nvidia-cuda-mps-control.said").read_text(encoding="utf-8"), "quit\n")
        expect(script.run("trace", "--again"), (0, ""))
    with first_light() as script:
        expect(script.run("trace"), (0, ""))
        expect("not judged" in script.records()["trace"]["summary"], True)


def networks_are_compared_with_pytorch():
    step = "#!/bin/sh\necho '{\"pieces_ms\": 4.0, \"graphs_ms\": 2.0, \"warnings\": []}'\n"
    python = "#!/bin/sh\n[ \"$1\" = -c ] && echo '[]' || echo '{\"samples_per_second\": 64000}'\n"
    programs = {"poseidon-data": "#!/bin/sh\n", "bench_step": step, "python": python}
    with first_light(**programs) as script:
        words = ("--python", script.folder / "bin" / "python")
        expect(script.run("resnet50,peers", *words), (0, ""))
        expect(script.records()["resnet50"]["summary"],
               "resnet50: batch on the GPU 128000/s, resnet50: with loader 10/s, resnet50: PyTorch eager 64000/s "
               "(2.00 x), resnet50: with loader, tuned 10/s")
        commands = [entry["command"] for entry in script.records()["peers"]["commands"]]
        expect(commands[-1].endswith("resnet50 --batch 256 --precision bf16 --device cuda --compile"), True)
        expect(script.records()["peers"]["summary"].endswith("resnet50: PyTorch compiled 64000/s (2.00 x)"), True)
        # Without PyTorch the other rows remain.
        (script.folder / "bin" / "python").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        expect(script.run("resnet50", "--again", *words), (0, ""))
        expect(script.records()["resnet50"]["summary"].endswith("; PyTorch is not available"), True)


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
    for test in (reports_are_read, only_the_first_failure_at_the_end_counts, distances_know_what_is_no_number,
                 networks_without_kinks_have_other_layers, tensors_are_read, sending_beside_computing_is_found,
                 layers_are_compared_with_the_peak, layers_are_compared_with_their_prediction,
                 every_timed_network_is_predicted, errors_are_found_at_any_depth, stages_continue_after_failures,
                 layer_tests_restart_after_a_fault, graphs_are_off_if_training_needs_it,
                 stages_that_train_are_skipped_if_no_job_trains, calls_merge_their_records,
                 results_of_another_machine_are_refused, no_gpu_ends_the_script,
                 libraries_of_packages_are_read_and_named, daemons_give_the_reason,
                 a_refused_sanitizer_is_no_failure, overlap_is_judged_only_if_the_workers_share_the_gpu,
                 networks_are_compared_with_pytorch, only_what_passed_on_a_gpu_is_proof,
                 only_kernels_that_ran_are_proven):
        test()
