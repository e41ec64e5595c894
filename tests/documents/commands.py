"""Extracts the shell commands of a Markdown document: splits blocks fenced as sh into commands."""
import dataclasses
import pathlib
import re
import subprocess

LANGUAGES = {"sh", "text", "json"}
FENCE = re.compile(r"( *)```(\w*)\s*$")
COMMENT = re.compile(r"(?:^|\s)#\s.*$")
# The machines on which a command is typed: its comment says "on head", or "on node1, node2 and node3".
ON_HOSTS = re.compile(r"\s#\s+on ((?:[a-z]+\d*)(?:(?:, | and )[a-z]+\d*)*)", re.ASCII)
HOST = re.compile(r"\bnode\d+\b|\bhead(?=:\d)")
# A placeholder that a reader must replace: <file>, or a name in capitals such as JOB.json.
PLACEHOLDER = re.compile(r"<[A-Za-z][\w -]*>|(?<![\w$./={-])[A-Z][A-Z_]+(?:\.[a-z]+)?(?![\w/.=}-])")
DAEMON = re.compile(r"^poseidon-(worker|server)\b(?!.*--once\b)", re.DOTALL)


class DocumentError(Exception):
    """A document that violates the rules of this parser."""


@dataclasses.dataclass(frozen=True)
class Command:
    document: str
    line: int
    text: str  # as written; may have several lines

    @property
    def place(self):
        return f"{self.document}:{self.line}"

    @property
    def words(self):
        """The command on one line, without its comment."""
        lines = (COMMENT.sub("", line).strip().removesuffix("\\") for line in self.text.splitlines())
        return " ".join(" ".join(lines).split())

    @property
    def hosts(self):
        """The hosts named in its comment."""
        found = ON_HOSTS.search(self.text)
        return re.split(", | and ", found[1]) if found else []

    @property
    def names_hosts(self):
        return bool(self.hosts or HOST.search(self.words))

    @property
    def is_daemon(self):
        return bool(DAEMON.match(self.words))

    @property
    def goes_to_background(self):
        return self.is_daemon or self.words.endswith("&")

    @property
    def placeholders(self):
        return PLACEHOLDER.findall(self.words)


def is_whole(text):
    """Whether the shell can run this text without another line."""
    if text.endswith("\\"):
        return False
    return subprocess.run(["bash", "-n"], input=text, text=True, stderr=subprocess.DEVNULL, check=False).returncode == 0


def cut(document, lines, first):
    """The commands of a block. An incomplete command at its end is returned too, and fails when it runs."""
    found, pending, begin = [], [], first
    for number, line in enumerate(lines, first):
        if not pending:
            begin = number
        pending.append(line.rstrip())
        if is_whole("\n".join(pending)):
            found.append(Command(document, begin, "\n".join(pending)))
            pending = []
    if pending:
        found.append(Command(document, begin, "\n".join(pending)))
    return [command for command in found if command.words]


def fenced(document, text):
    """(language, number of the first line, lines) of each block. A block without a language is an error."""
    blocks, fence, before = [], None, ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found
            if fence[2] not in LANGUAGES:
                raise DocumentError(f"{document}:{number}: expected a block of {', '.join(sorted(LANGUAGES))}, "
                                    f"got \"{fence[2]}\"")
            blocks.append((fence[2], number + 1, []))
        elif found:
            fence = None
        elif fence is not None:
            blocks[-1][2].append(line.removeprefix(fence[1]))
        elif line.startswith("    ") and not before.strip():
            raise DocumentError(f"{document}:{number}: a block by its margin: expected a fence that says what it is")
        before = line
    if fence is not None:
        raise DocumentError(f"{document}:{blocks[-1][1] - 1}: this block has no end")
    return blocks


def read(path, root):
    """The command blocks of a document: a list of commands for each block."""
    document = str(pathlib.Path(path).relative_to(root))
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return [cut(document, lines, first) for language, first, lines in fenced(document, text) if language == "sh"]
