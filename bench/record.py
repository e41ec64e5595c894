"""Reference results: the measurements of a benchmark, with its command, machine and commit.

A benchmark with --record DIR writes the results file DIR/MACHINE/CLAIM.json. bench/report.py makes the tables of the
documents from these files. A file holds the command, the machine, the commit, the peer, and the columns and rows of a
table. A measured value in a row is a figure, {"median", "least", "greatest", "rounds"}. It has the median over all
rounds, and the least and the greatest median of a single round. Unknown values are null.
"""
import json
import os
import pathlib
import platform
import re
import shlex
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Options whose values are paths on this machine. The recorded command has this text instead; None: it omits the option.
PLACES = {"--record": None, "--claim": None, "--build": None, "--program": None, "--state": None, "--python": "PYTHON_WITH_TORCH",
          "--beside": "OTHER_BUILD",
          "--photographs": "PHOTOGRAPHS.tar"}
# Generations of processors: (vendor, family, least model, greatest model, name). The first match counts.
GENERATIONS = [("AuthenticAMD", 25, 0x10, 0x1f, "Zen 4"), ("AuthenticAMD", 25, 0x60, 0xaf, "Zen 4"),
               ("AuthenticAMD", 25, 0, 0xff, "Zen 3"), ("AuthenticAMD", 26, 0, 0xff, "Zen 5"),
               ("GenuineIntel", 6, 85, 85, "Skylake or Cascade Lake"), ("GenuineIntel", 6, 106, 106, "Ice Lake"),
               ("GenuineIntel", 6, 167, 167, "Rocket Lake"), ("GenuineIntel", 6, 143, 143, "Sapphire Rapids"),
               ("GenuineIntel", 6, 207, 207, "Emerald Rapids"), ("GenuineIntel", 6, 173, 173, "Granite Rapids")]


def add_options(parser, claim):
    parser.add_argument("--record", type=pathlib.Path, metavar="DIR",
                        help="write the results file DIR/MACHINE/CLAIM.json; DIR is usually bench/results")
    parser.add_argument("--claim", default=claim, help="name of the results file; default: %(default)s")


def column(key, title, digits=None, bold=False, spread=False):
    """A column of a table. Without digits its values are text. With a spread, cells also show the extremes."""
    settings = {"digits": digits, "bold": bold or None, "spread": spread or None}
    return {"key": key, "title": title, **{name: value for name, value in settings.items() if value is not None}}


def figure(rounds, summary=statistics.median):
    """A figure from the values of each round: the summary of all values, and the extremes of the rounds' summaries."""
    each = [summary(values) for values in rounds]
    return {"median": rounded(summary([value for values in rounds for value in values])),
            "least": rounded(min(each)), "greatest": rounded(max(each)), "rounds": len(each)}


def ratio(median, each):
    """A figure of values that are derived from other figures, with one value for each round."""
    return {"median": rounded(median), "least": rounded(min(each)), "greatest": rounded(max(each)),
            "rounds": len(each)}


def rounded(value):
    return float(f"{value:.5g}")


def head(columns):
    """The first two lines of a table."""
    return [f"| {' | '.join(one['title'] for one in columns)} |",
            f"|{'|'.join('---:' if 'digits' in one else '---' for one in columns)}|"]


def line(columns, row):
    return f"| {' | '.join(cell(one, row.get(one['key'])) for one in columns)} |"


def cell(one, value):
    if not isinstance(value, dict):
        value = {"median": value}
    texts = {name: value_text(one, value.get(name)) for name in ("median", "least", "greatest")}
    middle, least, greatest = texts.values()
    if middle and one.get("bold"):
        middle = f"**{middle}**"
    if not one.get("spread") or not (least or greatest) or value.get("rounds") == 1:
        return middle or "-"
    if not middle:
        return f"{least} to {greatest}"
    return f"{middle} ({least} to {greatest})" if least else f"{middle} (at most {greatest})"


def value_text(one, value):
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.{one['digits']}f}" if "digits" in one else str(value)


def write(options, columns, rows, sudo=False, without=(), **more):
    """Writes the results file if the command has --record. `without` lists options that the recorded command omits.
    `more`: the `peer`, a `note` for below the table, the subject of the claim (`about`), and the index of its most
    important row (`headline`)."""
    if not options.record:
        return
    described = machine()
    content = {"claim": options.claim, "command": command(sys.argv, sudo, without), "machine": described, "commit": commit(),
               **more, "columns": columns, "rows": rows}
    path = options.record / described["name"] / f"{options.claim}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(content), encoding="utf-8")


def with_kept(options, rows, same):
    """Merges new rows into those of an existing results file, for a command that repeats only some measurements. A new
    row replaces the old row with the same values of the keys `same`."""
    path = options.record / machine()["name"] / f"{options.claim}.json" if options.record else None
    old = json.loads(path.read_text(encoding="utf-8"))["rows"] if path and path.exists() else []
    new = {tuple(row[key] for key in same): row for row in rows}
    places = [new.pop(tuple(row[key] for key in same), row) for row in old]
    return places + list(new.values())


def text_of(content):
    """JSON text with one line for each column and each row."""
    parts = []
    for key, value in content.items():
        if isinstance(value, list):
            inner = ",\n".join(f"    {json.dumps(entry)}" for entry in value)
            parts.append(f"  {json.dumps(key)}: [\n{inner}\n  ]")
        elif value != "":
            parts.append(f"  {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def command(arguments, sudo=False, without=()):
    """The command as a reader types it in a clone: without paths of this machine and without the options `without`."""
    places = PLACES | dict.fromkeys(without)
    program = pathlib.Path(arguments[0]).resolve()
    words, rest = ["sudo"] * sudo + ["python3", str(program.relative_to(ROOT))], list(arguments[1:])
    while rest:
        name, has_value, value = rest.pop(0).partition("=")
        if name not in places:
            words.append(shlex.quote(name + has_value + value))
            continue
        if not has_value:
            rest.pop(0)
        if places[name]:
            words += [name, places[name]]
    return " ".join(words)


def commit():
    """The commit, followed by a plus if code differs from it. Changes of results and documents do not count."""
    def git(*words):
        done = subprocess.run(["git", "-c", "safe.directory=*", *words], cwd=ROOT, check=True, capture_output=True,
                              text=True)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/bench/results", ":!/*.md")
    return git("rev-parse", "--short", "HEAD") + ("+" if changed else "")


def machine():
    about = first_processor(pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii"))
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(encoding="ascii"))
    cpu, cores = processor(about), len(os.sched_getaffinity(0))
    return {"name": short_name(cpu, cores), "cpu": cpu, "cores": cores, "memory_gib": round(int(memory[1]) / 2**20),
            "kernel": platform.release(), "compiler": compiler()}


def first_processor(text):
    """The entries of /proc/cpuinfo for the first processor."""
    pairs = (entry.partition(":") for entry in text.split("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def processor(about):
    """The model name without words that all models have. If the name has no number, adds the generation."""
    model = re.sub(r"\((R|TM)\)|\b(CPU|Processor)\b|\b\d+-Core\b|@.*", " ", about.get("model name", "unknown"))
    model = " ".join(model.split())
    if re.search(r"\d", model):
        return model
    vendor, family, number = (about.get(key, "0") for key in ("vendor_id", "cpu family", "model"))
    for maker, its_family, least, greatest, name in GENERATIONS:
        if maker == vendor and its_family == int(family) and least <= int(number) <= greatest:
            return f"{model} ({name})"
    return f"{model} (family {family}, model {number})"


def short_name(cpu, cores):
    """A folder name such as epyc-zen5-2core."""
    name = re.sub(r"\b(amd|intel)\b", "", cpu.lower()).replace("zen ", "zen")
    return "-".join(re.findall(r"[a-z0-9]+", name)) + f"-{cores}core"


def compiler():
    try:
        done = subprocess.run(["g++", "-dumpfullversion"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"g++ {done.stdout.strip()}"
