"""What all stages of first_light share: programs with time limits, a budget, and files of results."""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import time

TAIL = 3000  # characters of what a program said that are kept
MOST_BYTES = 1 << 20  # of a file of results: eight of them stay far below 16 MiB
PASSED, FAILED, SKIPPED, BROKEN, OUT_OF_TIME = "passed", "failed", "skipped", "broken", "out of time"


class Skipped(Exception):
    """There is nothing to do this with; why."""


class ProgramFailed(Exception):
    """A program ended with an error, or ran into its limit."""

    def __init__(self, why, output=""):
        super().__init__(why)
        self.output = output


@dataclasses.dataclass
class Settings:
    programs: pathlib.Path  # the folder of poseidon-train
    configs: pathlib.Path
    scratch: pathlib.Path  # what runs write; gone at the end
    device: str = "cuda"
    dry_run: bool = False
    python: str = "python3"
    data: str = ""

    @property
    def is_cpu(self):
        return self.device == "cpu"


class Bench:
    """Runs programs for one stage, never beyond its time."""

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
            raise Skipped(f"{path} is not there")
        return str(path)

    def run(self, command, limit=600, accept=(0,), environment=None):
        """What it prints. ProgramFailed where it exits otherwise, which the stage may catch and go on."""
        limit = min(limit, self.left())
        if limit < 1:
            raise ProgramFailed("no time is left")
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                                   env={**os.environ, **(environment or {})}, start_new_session=True)
        try:
            output, errors = process.communicate(timeout=limit)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            code = "stopped at its limit"
        entry = {"command": " ".join(map(str, command)), "exit": code, "seconds": round(time.monotonic() - begin, 2)}
        if code not in accept:
            entry["said"] = (errors + output)[-TAIL:]
        self.commands.append(entry)
        if code not in accept:
            last = (errors.strip() or output.strip() or "nothing said").splitlines()[-1]
            raise ProgramFailed(f"{pathlib.Path(command[0]).name}: exit {code}: {last[:300]}", output)
        return output

    def folder(self):
        """A new one for a run."""
        self.runs += 1
        return self.settings.scratch / f"{len(list(self.settings.scratch.iterdir()))}-{self.runs}"

    def train(self, job, device=None, precision=None, sets=(), extra=(), limit=300, wrapper=()):
        """The summary of a run, with the metrics of its steps and its folder."""
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
    """A result small enough to keep: what programs said goes first."""
    if len(json.dumps(value)) <= MOST_BYTES:
        return value
    for command in value.get("commands", []):
        command.pop("said", None)
    if len(json.dumps(value)) <= MOST_BYTES:
        return value
    return {**{key: value[key] for key in ("stage", "status", "summary", "seconds")}, "results": "too large to keep"}


def run_stage(stage, settings, seconds, earlier):
    """The record of a stage, whatever happens in it."""
    bench, begin = Bench(settings, seconds), time.monotonic()
    record = {"stage": stage.name, "status": BROKEN, "summary": ""}
    try:
        results, passed, summary = stage.work(bench, earlier)
        record.update(status=PASSED if passed else FAILED, summary=summary, results=results)
    except Skipped as why:
        record.update(status=SKIPPED, summary=str(why))
    except ProgramFailed as why:
        record.update(status=OUT_OF_TIME if bench.left() < 1 else FAILED, summary=str(why))
    except Exception as error:  # pylint: disable=broad-except  # the stages behind it are worth more
        record.update(summary=f"{type(error).__name__}: {error}")
    record.update(seconds=round(time.monotonic() - begin, 1), commands=bench.commands)
    return cut(record)
