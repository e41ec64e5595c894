#!/usr/bin/env python3
"""Lengths of the program's functions and widths of its classes.

  tests/house/code_sizes.py            the figures, the longest functions and the widest classes
  tests/house/code_sizes.py --check    exit 1 where a limit is passed

Reads the output of Universal Ctags for all sources of the program, without tests and benchmarks. The length of a
function is the lines from its name to its closing brace, also for inline functions. The width of a class is the number
of methods and data members that it declares itself, without those of nested structs.
"""
import argparse
import collections
import json
import pathlib
import statistics
import subprocess
import sys

FOLDERS = ("core", "layers", "net", "data", "comm", "trainer", "importer", "apps")
MOST = {"median lines of a function": 6, "p90 of lines": 20, "lines of a function": 60,
        "methods of a class": 25, "members of a class": 20}
SHOWN = 8


def tags(root):
    """The output of ctags: one dict for each function, class, prototype and member."""
    files = [str(path) for folder in FOLDERS for path in sorted((root / folder).rglob("*"))
             if path.suffix in (".h", ".cpp", ".cu", ".cuh")]
    output = subprocess.run(
        ["ctags", "--output-format=json", "--fields=+neKZ", "--kinds-C++=fcspm", "--language-force=C++",
         "-f", "-", *files],
        check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def functions(found):
    """Lines by "path:line name", longest first."""
    lines = {f"{tag['path']}:{tag['line']} {tag['name']}": tag["end"] - tag["line"] + 1
             for tag in found if tag["kind"] == "function" and "end" in tag}
    return dict(sorted(lines.items(), key=lambda item: -item[1]))


def classes(found):
    """(methods, members) of each class with methods. A struct of data only is left out."""
    methods, members = collections.Counter(), collections.Counter()
    for tag in found:
        scope = tag.get("scope")
        if scope is None or tag.get("scopeKind") not in ("class", "struct"):
            continue
        header = tag["path"].endswith((".h", ".cuh"))
        inside = header or tag["kind"] != "function" or is_inline(tag, found)
        if tag["kind"] in ("prototype", "function") and inside:
            methods[scope] += 1
        elif tag["kind"] == "member":
            members[scope] += 1
    return {scope: (methods[scope], members[scope]) for scope in methods}


def is_inline(tag, found):
    """Whether a function of a source file is defined inside a class of the same file."""
    return any(other["kind"] in ("class", "struct") and other["path"] == tag["path"] and "end" in other
               and full_name(other) == tag["scope"] and other["line"] < tag["line"] <= other["end"]
               for other in found if other["kind"] in ("class", "struct"))


def full_name(tag):
    return f"{tag['scope']}::{tag['name']}" if "scope" in tag else tag["name"]


def measured(lines, widths):
    sizes = sorted(lines.values())
    return {"median lines of a function": statistics.median(sizes),
            "p90 of lines": sizes[int(len(sizes) * 0.9)],
            "lines of a function": sizes[-1],
            "methods of a class": max(methods for methods, _ in widths.values()),
            "members of a class": max(members for _, members in widths.values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found = tags(options.root)
    lines, widths = functions(found), classes(found)
    figures = measured(lines, widths)
    for what, most in MOST.items():
        print(f"{what:30} {figures[what]:5g}  (at most {most})")
    if not options.check:
        print(f"\n{len(lines)} functions; the longest:")
        for place in list(lines)[:SHOWN]:
            print(f"  {lines[place]:4} {str(place).removeprefix(str(options.root) + '/')}")
        print(f"\n{len(widths)} classes with methods; the widest:")
        for scope, (methods, members) in sorted(widths.items(), key=lambda item: -max(item[1]))[:2 * SHOWN]:
            print(f"  {methods:4} methods {members:4} members  {scope}")
    passed = [what for what, most in MOST.items() if figures[what] > most]
    return 1 if options.check and passed else 0


if __name__ == "__main__":
    sys.exit(main())
