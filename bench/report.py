#!/usr/bin/env python3
"""Writes the tables of the documents from the results files in bench/results.

    python3 bench/report.py            rewrites the tables and the figures in sentences
    python3 bench/report.py --check    lists what it would change, one line each; exit code 1 if any

A table is between two comments. The first comment names its results files. One table has the rows of all of them:

    <!-- table MACHINE/CLAIM MACHINE/CLAIM... -->
    <!-- end -->

Words after the names select a part of the results:

    KEY=VALUE,VALUE...     rows with one of these values
    columns=KEY,KEY...     these columns, in this order; default: all
    spread=KEY,KEY...      only these columns show the least and the greatest round

With "list" instead of "table", the rows are one list, separated by commas. With "summary", there is a list item for
each file. It has the figures of the headline row. A file without one has the extremes of its bold columns. SENTENCES
lists the sentences whose figures come from results files.
"""
import argparse
import dataclasses
import difflib
import itertools
import json
import pathlib
import re
import sys
import textwrap
import typing

import record

DOCUMENTS = ["README.md", "docs/performance.md"]
WIDTH = 120
BLOCK = re.compile(r"(<!-- (table|list|summary)\s([^>]*?)\s*-->\n)(.*?)(<!-- end -->)", re.DOTALL)
NUMBER = r"(\d+(?:,\d{3})*(?:\.\d+)?)"


class ReportError(Exception):
    """The documents and the results files do not match."""


class Results:
    """The results files in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def file(self, name):
        """The content of the results file MACHINE/CLAIM."""
        path = self.folder / f"{name}.json"
        if not path.is_file():
            raise ReportError(f"bench/results/{name}.json is missing")
        return json.loads(path.read_text(encoding="utf-8"))

    def values(self, names, key, **wanted):
        """The medians of column `key`, in the rows that have the `wanted` values."""
        rows = itertools.chain.from_iterable(self.file(name)["rows"] for name in names)
        return [row[key]["median"] for row in rows if all(row[name] == value for name, value in wanted.items())]


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a document, with {} for each figure. `figures` returns the texts of the figures. It reads the files
    of the table `claim` in docs/performance.md."""
    document: str
    words: str
    claim: str
    figures: typing.Callable

    @property
    def pattern(self):
        return re.compile(r"\s+".join(re.escape(word) for word in self.words.split()).replace(r"\{\}", NUMBER))

    def renewed(self, text, shown, results):
        found = self.pattern.search(text)
        if not found:
            raise ReportError(f"the sentence \"{self.words}\" is missing")
        if self.claim not in shown:
            raise ReportError(f"docs/performance.md has no table {self.claim}")
        figures = list(self.figures(results, shown[self.claim]))
        for place, figure in reversed(list(enumerate(figures, 1))):
            text = text[:found.start(place)] + figure + text[found.end(place):]
        return text


def extremes(key, digits, **wanted):
    def figures(results, names):
        values = results.values(names, key, **wanted)
        return f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return figures


def medians(key, digits, **wanted):
    def figures(results, names):
        return [f"{value:.{digits}f}" for value in results.values(names, key, **wanted)]
    return figures


def times_as_long_by_servers(results, names):
    """The ratio of AlexNet's step times with the parameter server alone and with the chosen schemes, for each link."""
    machine = names[0].split("/")[0]
    for link in (200, 1000):
        rows = {"network": "alexnet", "link": link}
        ps, auto = (results.values([f"{machine}/schemes"], "step_ms", **rows, variant=variant)[0]
                    for variant in ("ps", "auto"))
        yield f"{ps / auto:.1f}"


SENTENCES = [
    Sentence("README.md", "It is {} to {} times as fast as PyTorch on the same cores", "training",
             extremes("times_as_fast", 1)),
    Sentence("README.md", "{} to {} times as fast as PyTorch's DistributedDataParallel over a link of 200 Mb/s",
             "netlab", extremes("times_as_fast", 1, link=200, variant="auto")),
    Sentence("README.md", "{} to {} times over one of 1 Gb/s", "netlab",
             extremes("times_as_fast", 1, link=1000, variant="auto")),
    Sentence("docs/performance.md", "With one thread, Poseidon is {} to {} times as fast", "training",
             extremes("times_as_fast", 2, threads=1)),
    Sentence("docs/performance.md", "At 200 Mb/s, bf16 on the wire makes ResNet-50 {} times as fast as DDP", "netlab",
             medians("times_as_fast", 2, link=200, variant="auto, bf16", network="resnet50")),
    Sentence("docs/performance.md", "and VGG11 {} times", "netlab",
             medians("times_as_fast", 2, link=200, variant="auto, bf16", network="vgg11")),
    Sentence("docs/performance.md", "takes {} times as long at 200 Mb/s and {} times at 1 Gb/s", "netlab",
             times_as_long_by_servers),
]


def table(results, names, **words):
    files = [results.file(name) for name in names]
    columns, rows = selection(files, **words)
    return [*record.head(columns), *(record.line(columns, row) for row in rows), "", *caption(files)]


def value_list(results, names, **words):
    files = [results.file(name) for name in names]
    columns, rows = selection(files, **words)
    cells = (" ".join(record.cell(column, row.get(column["key"])) for column in columns) for row in rows)
    return [*wrapped(", ".join(cells)), "", *caption(files)]


def selection(files, columns=None, spread=None, **wanted):
    """The columns and rows of the files that the words of a comment select."""
    shown = selected(files[0], columns, spread)
    for one in files:
        if selected(one, columns, spread) != shown:
            raise ReportError(f"{one['claim']} and {files[0]['claim']} have different columns")
    rows = [row for one in files for row in one["rows"]
            if all(str(row.get(key)) in values for key, values in wanted.items())]
    if not rows:
        raise ReportError(f"{files[0]['claim']} has no such row")
    return shown, rows


def selected(one, keys, spread):
    """The columns of a results file that its table shows. `keys` and `spread`: None selects all."""
    by_key = {column["key"]: column for column in one["columns"]}
    for key in itertools.chain(keys or [], spread or []):
        if key not in by_key:
            raise ReportError(f"{one['claim']} has no column \"{key}\"")
    columns = [by_key[key] for key in keys or by_key]
    if spread is None:
        return columns
    return [column | {"spread": column["key"] in spread} for column in columns]


def caption(files):
    """States the machine, commit and command of each file. Files that share them share a sentence."""
    sentences = []
    for machine, group in itertools.groupby(files, key=lambda one: one["machine"]):
        measured = []
        for when, same in itertools.groupby(group, key=lambda one: f"{commits(one)}{circumstances(one)}"):
            measured.append(f"{when}: " + " and ".join(f"`{one['command']}`" for one in same))
        sentences.append(f"{machine['cores']}-core {machine['cpu']}, {'; '.join(measured)}.")
    return wrapped(" ".join(sentences))


def wrapped(text, **more):
    return textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False, **more)


def commits(one):
    """The commits of the rows, or of the file."""
    each = sorted({row["commit"] for row in one["rows"] if "commit" in row}) or [one["commit"]]
    return f"commit{'s' * (len(each) > 1)} {' and '.join(each)}"


def circumstances(one):
    figures = [value for row in one["rows"] for value in row.values() if isinstance(value, dict)]
    counts = {figure["rounds"] for figure in figures} - {None}
    rounds = max(counts, default=None)
    parts = [one.get("peer"), one.get("note")]
    if rounds == 1:
        parts.append("one round")
    elif rounds:
        parts.append(f"{rounds} rounds")
    return "".join(f", {part}" for part in parts if part)


def summary(results, names):
    """A list item for each file: its subject, and figures."""
    lines = []
    for one in map(results.file, names):
        figures = headline(one) if "headline" in one else extremes_of_bold(one)
        where = f"{one['machine']['cpu']}, {one['commit']}{circumstances(one)}"
        text = f"* {one['about']}: {', '.join(figures)} (`{one['command']}`; {where})"
        lines += wrapped(text, subsequent_indent="  ")
    return lines


def headline(one):
    row = one["rows"][one["headline"]]
    return [f"{record.cell(column, row[column['key']])} {column['title']}" for column in one["columns"]
            if isinstance(row.get(column["key"]), dict)]


def extremes_of_bold(one):
    for column in one["columns"]:
        if column.get("bold"):
            values = [row[column["key"]]["median"] for row in one["rows"]]
            least, greatest = (record.value_text(column, value) for value in (min(values), max(values)))
            yield f"{least} to {greatest} {column['title']}"


def parts_of(text):
    """The names of a table's files, and the lists of the words KEY=VALUE,VALUE."""
    words = text.split()
    pairs = (word.split("=") for word in words if "=" in word)
    return [word for word in words if "=" not in word], {key: values.split(",") for key, values in pairs}


def renewed_tables(text, results):
    makers = {"table": table, "list": value_list, "summary": summary}

    def block(found):
        try:
            names, wanted = parts_of(found[3])
            lines = makers[found[2]](results, names, **wanted)
        except ReportError as error:
            raise ReportError(f"{text.count(chr(10), 0, found.start()) + 1}: {error}") from error
        return "".join([found[1], *(f"{line}\n" for line in lines), found[5]])

    return BLOCK.sub(block, text)


def shown_claims(text):
    """Maps the first claim of each table to the names MACHINE/CLAIM of all its files."""
    blocks = (parts_of(found[3])[0] for found in BLOCK.finditer(text))
    return {names[0].split("/")[-1]: names for names in blocks}


def renewed(root):
    """Returns the updated documents by name, and the errors."""
    results = Results(root / "bench" / "results")
    texts = {name: (root / name).read_text(encoding="utf-8") for name in DOCUMENTS}
    shown, faults = shown_claims(texts["docs/performance.md"]), []
    for name in DOCUMENTS:
        try:
            texts[name] = renewed_tables(texts[name], results)
        except ReportError as error:
            faults.append(f"{name}:{error}")
    for sentence in SENTENCES:
        try:
            texts[sentence.document] = sentence.renewed(texts[sentence.document], shown, results)
        except ReportError as error:
            faults.append(f"{sentence.document}: {error}")
    return texts, faults


def differences(name, present, wanted):
    old, new = present.splitlines(), wanted.splitlines()
    for kind, begin, end, new_begin, new_end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        pairs = itertools.zip_longest(old[begin:end], new[new_begin:new_end])
        for number, (got, expected) in enumerate(pairs, begin + 1):
            yield f"{name}:{number}: expected {quoted(expected)}, got {quoted(got)}"


def quoted(line):
    return "no line" if line is None else f"\"{line}\""


def check(root):
    """One line for each place where a document differs from its results files."""
    texts, faults = renewed(root)
    for name, wanted in texts.items():
        faults += differences(name, (root / name).read_text(encoding="utf-8"), wanted)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="list the differences, write nothing")
    options = parser.parse_args()
    if options.check:
        faults = check(record.ROOT)
    else:
        texts, faults = renewed(record.ROOT)
        for name, text in texts.items():
            (record.ROOT / name).write_text(text, encoding="utf-8")
    sys.exit("\n".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
