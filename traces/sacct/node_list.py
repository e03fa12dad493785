"""Slurm's lists of machines: ``gpu[001-004,007],login1``, as NodeList has them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

import numpy as np
import polars as pl

from simkit.arrays import Ints
from simkit.traces.names import number_names
from simkit.workload.dependencies import slices
from simkit.workload.recorded import Nodes

_ENTRY: Final = re.compile(r"(?:[^,\[\]]|\[[^\[\]]*\])+")
_PART: Final = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?")
_NOTHING: Final = ("", "none assigned", "unknown", "(null)", "none", "n/a")
MOST_NAMES: Final = 100_000
"""A text that stands for more machines is not taken for a list."""
MOST_PAIRS: Final = 50_000_000
"""Pairs of jobs and machines above which machines are only counted, not told apart."""


def node_names(text: str) -> tuple[str, ...]:
    """Return the names in a list of machines; empty if there is none, or it has no known form."""
    if text.strip().lower() in _NOTHING:
        return ()
    names: list[str] = []
    if ",".join(_ENTRY.findall(text)) != text:
        return ()
    for entry in _ENTRY.findall(text):
        choices = [_choices(*found) for found in _PART.findall(entry)]
        if not all(choices) or len(names) + np.prod([len(c) for c in choices]) > MOST_NAMES:
            return ()
        names += map("".join, product(*choices))
    return tuple(dict.fromkeys(names))


def _choices(ranges: str, plain: str) -> list[str]:
    """Return what may stand in one place of a name; empty if the ranges have no known form."""
    if plain:
        return [plain]
    found: list[str] = []
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            return []
        first, last = int(match[1]), int(match[2] or match[1])
        if not first <= last < first + MOST_NAMES:
            return []
        found += (str(number).zfill(len(match[1])) for number in range(first, last + 1))
    return found


class NodeLists:
    """Collects the machines of jobs block by block; equal texts are read once."""

    def __init__(self) -> None:
        self._texts: dict[str, int] = {}
        self._of_jobs: list[Ints] = []

    def add(self, texts: pl.Series) -> None:
        """Add the lists of some jobs."""
        self._of_jobs.append(number_names(texts.str.strip_chars(), self._texts))

    def nodes(self, order: object) -> Nodes | None:
        """Return the machines of all jobs in this order, none of those whose list tells none.

        None if no job's are known, or there are too many pairs.
        """
        text = np.concatenate(self._of_jobs)[order]  # type: ignore[call-overload]
        known: dict[str, int] = {}
        lists = [[known.setdefault(n, len(known)) for n in names] for names in self._lists()]
        sizes = np.array([len(one) for one in lists], np.int64)
        lists.append([])  # of jobs without a text, whose number is -1
        sizes = np.append(sizes, 0)
        if not 0 < sizes[text].sum() <= MOST_PAIRS:
            return None
        flat = np.fromiter((number for one in lists for number in one), np.int64)
        text = np.where(text < 0, len(sizes) - 1, text)
        first, places = slices(np.concatenate(([0], np.cumsum(sizes))), text)
        return Nodes(tuple(known), first, flat[places])

    def _lists(self) -> Iterator[tuple[str, ...]]:
        return map(node_names, self._texts)
