"""What a page of the documentation shows: files, commands with their output, Python sessions."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")],
    key=lambda path: path.relative_to(ROOT).as_posix(),
)
PAGES = [page for page in PAGES if not {"_build", "templates"} & set(page.parts)]
"""All but what is built from them, or stands for one that is filled."""

_BLOCK = re.compile(
    r"(?:<!-- file: (?P<marked>\S+) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_PART = re.compile(r"^<!-- test:(?: (?P<name>\w+))? -->\n", re.MULTILINE)
_NAMED = re.compile(r"# (?P<name>\w+\.(?:py|yaml))\n")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str
    file: str
    """Name of the file that it shows; empty if it shows none."""
    part: str
    """Part of the page: each is a test, which has the files of all parts before it."""


@dataclass(frozen=True)
class Command:
    """A command after a ``$`` and the output shown below it."""

    words: tuple[str, ...]
    output: tuple[str, ...]


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order.

    A block is a file if it begins with a comment of its name, or if a mark before it says so. A
    mark ``<!-- test: name -->`` begins a part of the page; one without a name returns to the first.
    """
    text = page.read_text("utf-8")
    marks = [(mark.start(), mark["name"] or "") for mark in _PART.finditer(text)]
    for match in _BLOCK.finditer(text):
        part = next((name for start, name in reversed(marks) if start < match.start()), "")
        named = _NAMED.match(match["text"])
        name = match["marked"] or (named["name"] if named else "")
        yield Block(match["language"], match["text"], name, part)


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a console block."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        first, _, rest = part.replace("\\\n", " ").partition("\n")
        yield Command(tuple(shlex.split(first)), tuple(rest.splitlines()))


def matches(shown: tuple[str, ...], found: str) -> bool:
    """Tell whether an output is as shown; ``…`` stands for anything, alone on a line for lines.

    Runs of blanks count as one, and empty lines and blanks at the end of lines do not count.
    """
    pattern = ""
    for line in filter(str.strip, shown):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            text = r".*".join(map(re.escape, " ".join(line.split()).split("…")))
            pattern += text + r"\n"
    lines = (" ".join(line.split()) for line in found.splitlines())
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines if line)) is not None
