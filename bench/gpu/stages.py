"""The stages of first_light, with the most informative ones first. Each returns whether it passes, and a line that
summarizes its results."""
import dataclasses
import typing

import correctness
import machine
import speed


@dataclasses.dataclass(frozen=True)
class Stage:
    name: str
    file: str  # results file; related stages share one
    seconds: int  # time limit; the remaining time also limits a stage
    work: typing.Callable  # (bench) -> passed, summary
    trains: bool = False  # True: the stage is skipped if the smoke stage could not train


STAGES = (
    Stage("properties", "properties", 240, machine.properties),
    Stage("smoke", "properties", 240, machine.smoke),
    Stage("parity", "parity", 420, correctness.parity),
    Stage("graphs", "speed", 150, speed.graphs),
    Stage("resnet50", "peers", 420, speed.resnet50),
    Stage("steps", "steps", 240, correctness.steps, trains=True),
    Stage("hashes", "steps", 120, correctness.hashes, trains=True),
    Stage("together", "steps", 150, correctness.together, trains=True),
    Stage("ceilings", "speed", 240, machine.ceilings),
    Stage("layers", "speed", 300, speed.layers),
    Stage("peers", "peers", 900, speed.peers),
    Stage("trace", "runs", 200, speed.trace, trains=True),
    Stage("accuracy", "runs", 150, speed.accuracy, trains=True),
    Stage("sanitizer", "runs", 400, machine.sanitizer),
)
