"""Reproductions: a paper's figures made again, from training to picture, beside what it claims.

A reproduction is an entry point of the group ``simkit.reproductions``: a function that is given a
`Workplace`, does what is not yet done there, and writes its page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Workplace:
    """Where a reproduction works, and how much of it is to be done."""

    pages: Path
    """Gets NAME.md, its pictures and its tables."""
    work: Path
    """Keeps trainings and results; what is whole there is not done again."""
    quick: bool
    """A small version that takes minutes: the same steps, fewer iterations, sets and seeds."""
    workers: int
    """Processes at most."""
    say: Callable[[str], None]
    """Tells the user what is going on, a line each."""


class Reproduction(Protocol):
    """What an entry point of ``simkit.reproductions`` is."""

    def __call__(self, place: Workplace) -> Path:
        """Do all that is missing; return the page."""
