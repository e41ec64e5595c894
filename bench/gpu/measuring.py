"""The common part of all stages of first_light: programs with time limits, rows of results, and records."""
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import traceback

TAIL = 3000  # characters of each output of a program that are kept if it fails
MOST_BYTES = 1 << 20  # limit for the record of a stage; a results file holds at most four records
PASSED, FAILED, SKIPPED, BROKEN, OUT_OF_TIME = "passed", "failed", "skipped", "broken", "out of time"
UNFINISHED = "unfinished"
POLL_SECONDS = 0.02


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
    golden: pathlib.Path = pathlib.Path()  # reference results of the layer tests
    libraries: tuple = ()  # folders of CUDA's libraries, for LD_LIBRARY_PATH
    device: str = "cuda"
    dry_run: bool = False
    python: str = "python3"
    data: str = ""

    @property
    def is_cpu(self):
        return self.device == "cpu"

    def environment(self):
        """Folders of the caller's LD_LIBRARY_PATH precede those of Python's packages."""
        given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
        folders = ":".join([*given, *self.libraries])
        return {**os.environ, "POSEIDON_GOLDEN": str(self.golden), **({"LD_LIBRARY_PATH": folders} if folders else {})}


class Process:
    """A running program. Threads read its output, so that the output before a fault is kept."""

    def __init__(self, command, environment):
        self.name = pathlib.Path(command[0]).name
        self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      text=True, errors="replace", env=environment, start_new_session=True)
        self.lines = {"output": [], "errors": []}
        self.last_output = time.monotonic()
        self.readers = [threading.Thread(target=self.read, args=pair, daemon=True)
                        for pair in ((self.popen.stdout, "output"), (self.popen.stderr, "errors"))]
        for reader in self.readers:
            reader.start()

    def read(self, stream, kind):
        for line in stream:
            self.lines[kind].append(line)
            self.last_output = time.monotonic()

    def text(self, kind):
        return "".join(self.lines[kind])

    def wait(self, limit, quiet, helpers):
        """Waits until the program ends. Stops it after `limit` seconds, after `quiet` seconds without output, or if one
        of `helpers` fails. Returns the exit code, or the reason for the stop."""
        ends, reason = time.monotonic() + limit, None
        while self.popen.poll() is None and reason is None:
            time.sleep(POLL_SECONDS)
            if time.monotonic() > ends:
                reason = f"stopped at its time limit of {limit:.0f} s"
            elif quiet and time.monotonic() > self.last_output + quiet:
                reason = f"stopped after {quiet:.0f} s without output"
            else:
                reason = next((f"stopped because {helper.failure()}" for helper in helpers if helper.failure()), None)
        if reason:
            self.stop()
        for reader in self.readers:
            reader.join(5)  # a child that continues may keep the pipe open
        return reason or self.popen.returncode

    def failure(self):
        """The reason if this program ended with an error, else None."""
        code = self.popen.poll()
        return f"{self.name} ended with {code}: {self.last_lines()}" if code else None

    def last_lines(self, count=3):
        lines = self.text("errors").strip() or self.text("output").strip() or "no output"
        return " / ".join(lines.splitlines()[-count:])[-600:]

    def stop(self):
        """Stops the program and its children."""
        try:
            os.killpg(self.popen.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.popen.wait()


class Bench:
    """Runs the programs of one stage within its time limit, and collects its results: rows with names, and other
    values. `records`: the records of all stages, by name. `save`: stores the results so far."""

    def __init__(self, settings, seconds, stage="", records=None, save=lambda record: None):
        self.settings, self.stage = settings, stage
        self.ends = time.monotonic() + seconds
        self.records = records or {}
        self.earlier = self.records.get(stage, {})
        self.save = save
        self.rows, self.results, self.commands, self.runs = [], {}, [], 0
        self.environment = settings.environment()

    def left(self):
        return self.ends - time.monotonic()

    def sets(self):
        """The settings (--set) with which the smoke stage could train."""
        return () if self.stage == "smoke" else tuple(self.results_of("smoke").get("sets", ()))

    def results_of(self, stage):
        return self.records.get(stage, {}).get("results") or {}

    def store(self):
        """Stores the results so far, because the machine may stop."""
        self.save({"rows": self.rows, "results": self.results})

    def attempt(self, name, work):
        """Adds a row with the result of `work`, or with its error. Keeps the row of an earlier call if that row has no
        error. Returns True if the row has no error."""
        kept = [row for row in self.earlier.get("rows", []) if row["name"] == name and "error" not in row]
        try:
            self.rows.append(kept[0] if kept else {"name": name, **work()})
        except (ProgramFailed, OSError, KeyError, ValueError) as error:
            self.rows.append({"name": name, "error": f"{type(error).__name__}: {error}"[:2500]})
        self.store()
        return "error" not in self.rows[-1]

    def all_measured(self):
        return bool(self.rows) and all("error" not in row for row in self.rows)

    def program(self, name):
        path = self.settings.programs / name
        if not path.exists():
            raise Skipped(f"{path} does not exist")
        return str(path)

    def start(self, command):
        return Process(command, self.environment)

    def run(self, command, limit=600, accept=(0,), quiet=None, helpers=()):
        """Runs a program and returns its output. Stops the program after `quiet` seconds without output, or if one of
        `helpers` ends with an error. Raises ProgramFailed for an exit code that is not in `accept`."""
        limit = min(limit, self.left())
        if limit < 1:
            raise ProgramFailed("the time limit of the stage is reached")
        begin, process = time.monotonic(), self.start(command)
        code = process.wait(limit, quiet, helpers)
        entry = {"command": " ".join(map(str, command)), "exit": code, "seconds": round(time.monotonic() - begin, 2)}
        output, errors = process.text("output"), process.text("errors")
        if code not in accept:
            entry.update(errors=errors[-TAIL:], output=output[-TAIL:])
        self.commands.append(entry)
        if code not in accept:
            raise ProgramFailed(f"{process.name}: exit {code}: {process.last_lines()}", output)
        return output

    def folder(self):
        """The path of a new folder for a run."""
        self.runs += 1
        return self.settings.scratch / f"run-{self.runs}"

    def device_words(self, device=None, precision=None, sets=()):
        """Flags of poseidon-train for a device and for settings."""
        device = device or self.settings.device
        if precision and not (precision == "tf32" and device == "cpu"):
            sets = [*sets, f"device.precision={precision}"]
        return ["--device", device, *(word for one in [*self.sets(), *sets] for word in ("--set", one))]

    def train(self, job, device=None, precision=None, sets=(), extra=(), limit=300, wrapper=(), helpers=()):
        """Runs a job. Returns the summary, the metrics of the steps, and the folder of the run."""
        folder = self.folder()
        self.run([*wrapper, self.program("poseidon-train"), str(job), "--json", "--output", str(folder),
                  *self.device_words(device, precision, sets), *extra], limit, helpers=helpers)
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return summary, [json.loads(line) for line in lines], folder


def cut(record):
    """Reduces a record to MOST_BYTES. Removes the output of programs first."""
    if len(json.dumps(record)) <= MOST_BYTES:
        return record
    commands = [{key: command[key] for key in ("command", "exit", "seconds")} for command in record["commands"]]
    record = {**record, "commands": commands}
    if len(json.dumps(record)) <= MOST_BYTES:
        return record
    return {**{key: record[key] for key in ("stage", "status", "summary", "seconds")}, "results": "too large to store"}


def run_stage(stage, settings, seconds, records, save):
    """Runs a stage and returns its record, even if the stage raises an exception. `save` stores a record."""
    record = {"stage": stage.name, "status": UNFINISHED, "summary": "", "seconds": 0, "commands": []}
    bench = Bench(settings, seconds, stage.name, records, lambda part: save({**record, **part}))
    begin = time.monotonic()
    try:
        passed, summary = stage.work(bench)
        record.update(status=PASSED if passed else FAILED, summary=summary)
        if not passed and bench.left() < 1:
            record.update(status=OUT_OF_TIME)
    except Skipped as why:
        record.update(status=SKIPPED, summary=str(why))
    except ProgramFailed as why:
        record.update(status=OUT_OF_TIME if bench.left() < 1 else FAILED, summary=str(why))
    except Exception as error:  # pylint: disable=broad-except  # later stages must still run
        record.update(status=BROKEN, summary=f"{type(error).__name__}: {error}",
                      traceback=traceback.format_exc()[-TAIL:])
    record.update(seconds=round(time.monotonic() - begin, 1), rows=bench.rows, results=bench.results,
                  commands=bench.commands)
    record = cut(record)
    save(record)
    return record
