"""Files and folders that are being written: hidden until they are whole, gone if they never are.

A killed process leaves what it wrote beside its target, under a hidden name that tells machine and
process. Whoever writes to the same target next, on the same machine, removes it.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

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
        inside: whether the place lies in the target, a folder that is there, and not beside it.

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
    """Remove what killed processes of this machine left of a target, beside it and in it."""
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
