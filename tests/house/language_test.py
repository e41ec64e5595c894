#!/usr/bin/env python3
"""Checks the language of comments, messages, documents and commit subjects.

    language_test.py [--report]      --report prints a line for each document

* language.json lists words with a better replacement. Comments of C++ and CUDA sources, texts of several words in
  product code, names of test cases and documents may not contain them. "except" of a word lists regular expressions of
  correct uses.
* A document has a median of at most 15 words a sentence, and at most 3 % of its sentences have more than 30 words.
* A commit subject is "area: imperative verb object", at most 72 characters. Checked are the commits after BASE.
"""
import json
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASE = "5cca1321"  # older subjects stay as they are
MOST_MEDIAN, LONG, MOST_LONG = 15, 30, 0.03
FEWEST = 20  # sentences of a document from which on its shares count
SUBJECT = re.compile(r"[a-z][\w./ ,-]*: [a-z]\S*( \S+)+")
SKIPPED = {"docs/config.md"}  # poseidon-train writes it from descriptions


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()


def comments(text):
    """(line number, comment) of C++ and CUDA; strings that contain two slashes are rare, and are no comments."""
    for number, line in enumerate(text.splitlines(), 1):
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', line)
        if found := re.search(r"//[/!]?<?(.*)$", outside):
            yield number, found.group(1)


def texts(text):
    """(line number, text) of string literals with several words, which messages and descriptions are made of."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.lstrip().startswith(("//", "#include")):
            for found in re.finditer(r'"((?:[^"\\]|\\.)*)"', line):
                if " " in found.group(1).strip():
                    yield number, found.group(1)


def test_names(text):
    for found in re.finditer(r'\b(?:TEST_CASE|SUBCASE)\(((?:\s*"(?:[^"\\]|\\.)*")+)', text):
        yield text.count("\n", 0, found.start()) + 1, "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found.group(1)))


def prose(text):
    """The text of a document without code, tables, headings and generated blocks; lines keep their numbers."""
    def blank(found):
        return "\n" * found.group(0).count("\n")

    text = re.sub(r"^```.*?^```$", blank, text, flags=re.S | re.M)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    return "\n".join("" if line.startswith(("#", "|", "!")) else line for line in text.split("\n"))


def sentences(text):
    text = re.sub(r"`[^`]*`", "CODE", prose(text))
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[*+-]|\d+\.)\s+", "\n\n", text, flags=re.M)
    for paragraph in re.split(r"\n\s*\n", text):
        for sentence in re.split(r"(?<=[.!?])[)*_\"]*\s+(?=[A-Z*\"(\[])", " ".join(paragraph.split())):
            if len(sentence.split()) > 1:
                yield sentence


def words_to_replace(place, lines, rules):
    for number, line in lines:
        for rule in rules:
            kept = re.sub(r"`[^`]*`", "", line)  # code and quoted output
            for correct in rule.get("except", []):
                kept = re.sub(correct, "", kept)
            for found in re.finditer(rf"\b({rule['words']})\b", kept, re.I):
                yield f"{place}:{number}: \"{found.group(0)}\" ({rule['why']}): {rule['say']}"


def faults_of_document(path, text, rules, report):
    yield from words_to_replace(path, enumerate(prose(text).split("\n"), 1), rules)
    lengths = [len(sentence.split()) for sentence in sentences(text)]
    if not lengths:
        return
    median, long = statistics.median(lengths), sum(length > LONG for length in lengths)
    if report:
        print(f"{path}: {len(text.split())} words, {len(lengths)} sentences, median {median}, over {LONG} words: {long}")
    if len(lengths) < FEWEST:
        return
    if median > MOST_MEDIAN:
        yield f"{path}: a sentence has {median} words in the median, expected at most {MOST_MEDIAN}"
    if long > MOST_LONG * len(lengths):
        yield f"{path}: {long} of {len(lengths)} sentences have more than {LONG} words, expected at most 3 %"


def faults_of_subjects(subjects):
    for subject in subjects:
        if len(subject) > 72 or not SUBJECT.fullmatch(subject):
            yield f"commit subject: expected \"area: imperative verb object\" of at most 72 characters, got \"{subject}\""


def faults_of_project(report):
    rules = json.loads((ROOT / "tests" / "house" / "language.json").read_text())
    for path in git("ls-files", "*.h", "*.cpp", "*.cu", "*.cuh"):
        text = (ROOT / path).read_text()
        yield from words_to_replace(path, comments(text), rules)
        if not path.startswith("tests/"):
            yield from words_to_replace(path, texts(text), rules)
        else:
            yield from words_to_replace(path, test_names(text), rules)
    for path in git("ls-files", "*.md"):
        if path not in SKIPPED:
            yield from faults_of_document(path, (ROOT / path).read_text(), rules, report)
    if git("rev-parse", "--is-shallow-repository") == ["false"]:
        yield from faults_of_subjects(git("log", "--no-merges", "--format=%s", f"{BASE}..HEAD"))


def check_itself():
    """The faults that the checks must find, and texts that are correct."""
    assert list(texts('f("it goes on", "name");\n// "a comment"\n')) == [(1, "it goes on")]
    assert list(test_names('int a;\nTEST_CASE("a job "\n          "ends") {')) == [(2, "a job ends")]
    rules = [{"words": "anew", "say": "again", "why": "archaic", "except": ["named anew"]}]
    assert list(comments('int a;  // begins anew\nf("http://x anew");\n')) == [(1, " begins anew")]
    assert len(list(words_to_replace("a.h", [(1, "begins anew"), (2, "`anew` is a key"), (3, "a book named anew")], rules))) == 1
    long = " ".join(["word"] * 31) + ".\n\n"
    assert len(list(faults_of_document("a.md", "A short one. " * 30 + "\n\n" + long, rules, False))) == 1
    assert len(list(faults_of_document("a.md", ("Word " + "word " * 15 + ".\n\n") * 30, rules, False))) == 1
    assert not list(faults_of_document("a.md", "A short one.\n\n" * 30 + "```sh\nbegin anew\n```\n", rules, False))
    assert not list(faults_of_subjects(["core, net: rewrite comments", "ci: run README.md at night"]))
    assert len(list(faults_of_subjects(["Rewrite comments", "core: " + "x " * 40, "core:rewrite it"]))) == 3


def main():
    check_itself()
    faults = list(faults_of_project("--report" in sys.argv[1:]))
    sys.exit("\n".join(faults) if faults else 0)


if __name__ == "__main__":
    main()
