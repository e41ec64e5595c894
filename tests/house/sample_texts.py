#!/usr/bin/env python3
"""Draws texts at random for a review of their language.

    sample_texts.py SEED [--comments N] [--paragraphs N] [--messages N]

Comments come with the code that follows them. Messages are texts of several words in product code: errors, warnings,
help and descriptions of keys. A reviewer counts the texts that need a second reading.
"""
import argparse
import random
import re

import language_test as language

SHOWN_LINES = 3  # of code after a comment


def product_sources():
    return [path for path in language.git("ls-files", "*.h", "*.cpp", "*.cu", "*.cuh") if not path.startswith("tests/")]


def comment_blocks(path):
    """(place, block with the code after it): consecutive lines of comments are one block."""
    lines = (language.ROOT / path).read_text().splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].lstrip().startswith("//"):
            if re.search(r";\s*///?<? ", lines[at]):
                yield f"{path}:{at + 1}", lines[at]
            at += 1
            continue
        begin = at
        while at < len(lines) and lines[at].lstrip().startswith("//"):
            at += 1
        if not lines[begin].lstrip().startswith("// ----"):  # a heading
            yield f"{path}:{begin + 1}", "\n".join(lines[begin:at + SHOWN_LINES])


def paragraphs(path):
    text = language.prose((language.ROOT / path).read_text())
    for found in re.finditer(r"(?:[^\n]+\n?)+", text):
        if len(found.group(0).split()) > 1:
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}", found.group(0).rstrip()


def messages(path):
    """Consecutive string literals, also with values between them, are one message."""
    text = (language.ROOT / path).read_text()
    literal = r'"(?:[^"\\\n]|\\.)*"'
    for found in re.finditer(rf'{literal}(?:[\s,+]*(?:[\w.:>()\[\]-]+,\s*)?{literal})*', text):
        if any(len(re.findall("[A-Za-z]{2,}", one)) > 2 and " " in one for one in re.findall(literal, found.group(0))):
            yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}", found.group(0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=int)
    parser.add_argument("--comments", type=int, default=120)
    parser.add_argument("--paragraphs", type=int, default=60)
    parser.add_argument("--messages", type=int, default=60)
    words = parser.parse_args()
    draw = random.Random(words.seed)
    documents = [path for path in language.git("ls-files", "*.md") if path not in language.SKIPPED]
    for kind, count, paths, read in (("comment", words.comments, product_sources(), comment_blocks),
                                     ("paragraph", words.paragraphs, documents, paragraphs),
                                     ("message", words.messages, product_sources(), messages)):
        for number, (place, text) in enumerate(draw.sample([one for path in paths for one in read(path)], count), 1):
            print(f"---- {kind} {number}, {place}\n{text}\n")


if __name__ == "__main__":
    main()
