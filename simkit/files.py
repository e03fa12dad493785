"""Files: those of strangers are bounded before they are read, ours are whole or not there.

Nested brackets, packed text, equal rows and devices cost nothing to write and gigabytes to read.
Every reader of such a file asks here first. The limits are far above what honest files need, and
messages say how to go on.

What is being written is hidden until it is whole, and gone if it never is. A killed process leaves
what it wrote next to its target, under a hidden name with machine and process. Whoever writes
to the same target next, on the same machine, removes it.
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any, Final

DEEPEST: Final = 100
"""Most levels of lists and objects inside each other in a JSON file."""
FREE_BYTES: Final = 2**28
"""What a file may stand for in any case, once it is unpacked or decoded: 256 MiB."""
MOST_UNPACKED: Final = 25
"""Largest accepted ratio of unpacked to packed size; logs have 5 to 15."""
MOST_DECODED: Final = 50
"""Largest accepted ratio of decoded size to that of a Parquet file; runs have 5 to 20."""
MOST_DIGITS: Final = 1000
"""Most characters of a whole number in a JSON file."""

_TEXT: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_DEPTH: Final = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_OTHERS: Final = bytes(set(range(256)) - set(b"[{]}"))


class SpecialFileError(ValueError):
    """A device, a pipe or a socket where a file should be."""


class TooMuchError(ValueError):
    """A file stands for more than it may; see `most_bytes`."""


def refuse_special(path: Path) -> None:
    """Raise SpecialFileError for a device, a pipe or a socket; nothing is opened.

    They may have no end or no writer, and cannot be read twice, as a log is.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # opening it says what is wrong
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SpecialFileError("is a device or a pipe, not a file; copy its content into a file")


def read_json(path: Path) -> Any:
    """Return the content of a JSON file.

    Raises OSError if it cannot be read, and ValueError for a device, for what is no JSON, and for
    what no file of simkit has: deep nesting, numbers that are not finite, numbers without end.
    """
    refuse_special(path)
    return parse_json(path.read_bytes())


def parse_json(text: bytes) -> Any:
    """Return the value of a JSON text; raises ValueError as `read_json` does."""
    if text.count(b"[") + text.count(b"{") > DEEPEST and _depth(text) > DEEPEST:
        raise ValueError(f"is nested more than {DEEPEST} levels deep")
    try:
        return json.loads(
            text.decode("utf-8"), parse_constant=_no_number, parse_int=_whole, parse_float=_real
        )
    except RecursionError:
        raise ValueError(f"is nested more than {DEEPEST} levels deep") from None


def _depth(text: bytes) -> int:
    """Return how many brackets are open at most, those in texts left out."""
    import numpy as np

    steps = _TEXT.sub(b"", text).translate(_DEPTH, _OTHERS)
    return int(np.frombuffer(steps, np.int8).cumsum(dtype=np.int64).max(initial=0))


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise ValueError(f"holds a number of {len(text):,} digits; at most {MOST_DIGITS:,}")
    return int(text)


def _real(text: str) -> float:
    if math.isinf(number := float(text)):
        raise ValueError(f"holds {text[:40]}, which is too large for a number")
    return number


def most_bytes(path: Path, times: int) -> int:
    """Return the bytes that a file may stand for, unpacked or decoded: `times` its size."""
    return max(FREE_BYTES, times * path.stat().st_size)


class Unpacked:
    """A stream that unpacks a file, up to the size that it may stand for."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self._stream, self._most = stream, most_bytes(path, MOST_UNPACKED)
        self._left = self._most

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; raises TooMuchError if they are more than they may be."""
        piece = self._stream.read(self._left + 1 if size < 0 else size)
        self._left -= len(piece)
        if self._left < 0:
            raise TooMuchError(
                f"unpacks to more than {self._most / 1e6:,.0f} MB, {MOST_UNPACKED} times its size "
                "or 256 MiB, so it may be made to fill the memory; if you trust it, unpack it with "
                "gunzip and give the plain file"
            )
        return piece


def check_parquet(path: Path, columns: int | None = None) -> None:
    """Refuse a table that stands for far more than its file: equal rows cost nothing.

    Args:
        path: a Parquet file.
        columns: how many of its columns are read; None: all.

    Raises TooMuchError if it decodes to too much, SpecialFileError for a device, ValueError for
    columns of lists if all are read; OSError or PolarsError if it cannot be read.
    """
    import polars as pl

    refuse_special(path)
    schema = pl.read_parquet_schema(path)
    nested = [name for name, kind in schema.items() if kind.is_nested()]
    if columns is None and nested:
        raise ValueError(f"column {nested[0]!r} holds lists; it must hold numbers or text")
    rows = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    check_decoded(path, 8 * rows * (len(schema) if columns is None else columns), rows)


def check_decoded(path: Path, size: int, rows: int) -> None:
    """Raise TooMuchError if a file decodes to more bytes than it may stand for."""
    if size > (most := most_bytes(path, MOST_DECODED)):
        raise TooMuchError(
            f"stands for {rows:,} rows of {size / 1e6:,.0f} MB in a file of "
            f"{path.stat().st_size:,} bytes; at most {most / 1e6:,.0f} MB are read, {MOST_DECODED} "
            "times its size or 256 MiB, as it may be made to fill the memory; write it without "
            "repeated rows, or as CSV"
        )


def text_size(frame: Any) -> int:
    """Return how many bytes the texts of a polars frame have, each counted where it stands."""
    import polars as pl

    sizes = frame.select(pl.col(pl.String).str.len_bytes().cast(pl.UInt64).sum())
    return sum(size or 0 for size in sizes.row(0)) if sizes.width else 0


def check_texts(path: Path) -> None:
    """Raise TooMuchError if the texts of a Parquet file are far longer than the file."""
    import polars as pl

    frame = pl.scan_parquet(path, glob=False)
    texts = [name for name, kind in frame.collect_schema().items() if kind == pl.String]
    if texts:
        sizes = frame.select(pl.col(texts).str.len_bytes().cast(pl.UInt64).sum()).collect()
        check_decoded(path, sum(size or 0 for size in sizes.row(0)), 0)


PART: Final = ".part"
"""Ending of what is being written."""
_HERE: Final = re.sub(r"[^A-Za-z0-9]+", "-", platform.node())[:40]
_NAME: Final = re.compile(rf"\.{re.escape(_HERE)}\.(\d+)-\d+{re.escape(PART)}")
"""What follows the target's name: machine, process, number."""
_numbers: Final = count()


@contextmanager
def unfinished(target: Path, *, folder: bool = False, inside: bool = False) -> Iterator[Path]:
    """Give a hidden place to write to; in the end it is removed, unless it was renamed.

    Args:
        target: the file or folder that is wanted; its parent exists.
        folder: whether it is a folder, which is made.
        inside: whether the place lies in the target, an existing folder, not next to it.

    Raises OSError if it cannot be made.
    """
    remove_leftovers(target)
    place = target if inside else target.parent
    part = place / f".{target.name}.{_HERE}.{os.getpid()}-{next(_numbers)}{PART}"
    try:
        if folder:
            part.mkdir()
        yield part
    finally:
        _remove(part)


def remove_leftovers(target: Path) -> None:
    """Remove what killed processes of this machine left of a target, next to it and in it."""
    for place in (target.parent, target):
        with suppress(OSError):
            for entry in [*os.scandir(place)]:
                whose = _NAME.fullmatch(entry.name.removeprefix(f".{target.name}"))
                if whose and entry.name.startswith(".") and not _runs(int(whose[1])):
                    _remove(Path(entry.path))


def _runs(process: int) -> bool:
    """Return whether a process of this machine runs, or perhaps another of its number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True


def _remove(part: Path) -> None:
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            part.unlink()
