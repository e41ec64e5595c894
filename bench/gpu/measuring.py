"""The common part of all stages of first_light: programs with time limits, a time budget, and results files."""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time

TAIL = 3000  # characters of a program's output that are kept
MOST_BYTES = 1 << 20  # limit for the result of a stage: eight of them stay far below 16 MiB
PASSED, FAILED, SKIPPED, BROKEN, OUT_OF_TIME = "passed", "failed", "skipped", "broken", "out of time"


class Skipped(Exception):
    """A stage cannot run here. The message states the reason."""


class ProgramFailed(Exception):
    """A program ended with an error or reached its time limit."""

    def __init__(self, why, output=""):
        super().__init__(why)
        self.output = output


@dataclasses.dataclass
class Settings:
    programs: pathlib.Path  # the folder of poseidon-train
    configs: pathlib.Path
    scratch: pathlib.Path  # output of runs; removed at the end
    device: str = "cuda"
    dry_run: bool = False
    python: str = "python3"
    data: str = ""

    @property
    def is_cpu(self):
        return self.device == "cpu"


class Bench:
    """Runs the programs of one stage within its time limit."""

    def __init__(self, settings, seconds):
        self.settings = settings
        self.ends = time.monotonic() + seconds
        self.commands = []
        self.runs = 0

    def left(self):
        return self.ends - time.monotonic()

    def program(self, name):
        path = self.settings.programs / name
        if not path.exists():
            raise Skipped(f"{path} does not exist")
        return str(path)

    def run(self, command, limit=600, accept=(0,), environment=None):
        """Runs a program and returns its output. Raises ProgramFailed for any other exit code. The stage may catch
        it."""
        limit = min(limit, self.left())
        if limit < 1:
            raise ProgramFailed("the time limit of the stage is reached")
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                   env={**os.environ, **(environment or {})}, start_new_session=True)
        try:
            output, errors = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            code = "stopped at its time limit"
        entry = {"command": " ".join(map(str, command)), "exit": code, "seconds": round(time.monotonic() - begin, 2)}
        if code not in accept:
            entry["said"] = (errors + output)[-TAIL:]
        self.commands.append(entry)
        if code not in accept:
            last = (errors.strip() or output.strip() or "no output").splitlines()[-1]
            raise ProgramFailed(f"{pathlib.Path(command[0]).name}: exit {code}: {last[:300]}", output)
        return output

    def folder(self):
        """The path of a new folder for a run."""
        self.runs += 1
        return self.settings.scratch / f"{len(list(self.settings.scratch.iterdir()))}-{self.runs}"

    def train(self, job, device=None, precision=None, sets=(), extra=(), limit=300, wrapper=()):
        """Runs a job. Returns the summary, the metrics of the steps, and the folder of the run."""
        folder = self.folder()
        command = [*wrapper, self.program("poseidon-train"), str(job), "--json", "--output", str(folder),
                   "--device", device or self.settings.device]
        assigned = list(sets)
        if precision and not (precision == "tf32" and (device or self.settings.device) == "cpu"):
            assigned.append(f"device.precision={precision}")
        for one in assigned:
            command += ["--set", one]
        self.run([*command, *extra], limit)
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return summary, [json.loads(line) for line in lines], folder


def cut(value):
    """Reduces a result to MOST_BYTES. Removes the output of programs first."""
    if len(json.dumps(value)) <= MOST_BYTES:
        return value
    for command in value.get("commands", []):
        command.pop("said", None)
    if len(json.dumps(value)) <= MOST_BYTES:
        return value
    return {**{key: value[key] for key in ("stage", "status", "summary", "seconds")}, "results": "too large to store"}


def run_stage(stage, settings, seconds, earlier):
    """Runs a stage and returns its record, even if the stage raises an exception."""
    bench, begin = Bench(settings, seconds), time.monotonic()
    record = {"stage": stage.name, "status": BROKEN, "summary": ""}
    try:
        results, passed, summary = stage.work(bench, earlier)
        record.update(status=PASSED if passed else FAILED, summary=summary, results=results)
    except Skipped as why:
        record.update(status=SKIPPED, summary=str(why))
    except ProgramFailed as why:
        record.update(status=OUT_OF_TIME if bench.left() < 1 else FAILED, summary=str(why))
    except Exception as error:  # pylint: disable=broad-except  # later stages must still run
        record.update(summary=f"{type(error).__name__}: {error}")
    record.update(seconds=round(time.monotonic() - begin, 1), commands=bench.commands)
    return cut(record)
