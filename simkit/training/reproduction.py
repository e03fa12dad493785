"""Reproductions: a paper's figures made again, from training to picture, and its claims checked.

A reproduction is an entry point of the group ``simkit.reproductions``: a function of a `Workplace`,
which does the work that is not done there yet, and writes a page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Workplace:
    """Where a reproduction works, and at which size."""

    pages: Path
    """Receives NAME.md, its pictures and its tables."""
    work: Path
    """Keeps trainings and results; complete ones are not made again."""
    quick: bool
    """A small version that takes minutes: the same steps, fewer iterations, sets and seeds."""
    workers: int
    """The most processes."""
    say: Callable[[str], None]
    """Shows the user a line of progress."""


class Reproduction(Protocol):
    """An entry point of ``simkit.reproductions``."""

    def __call__(self, place: Workplace) -> Path:
        """Do the missing work; return the page."""
