"""Which programs are measured: all kinds equally often, with run times spread evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simkit.traces.elf_bursts.programs import LEVELS, Program
from simkit.traces.elf_bursts.sizes import RunTimes

CLASSES = 10
LONGEST_S = 0.3
"""Run times are in tenths of this; programs that take longer are left out."""
HEAP_SHARE = 0.15
"""The share of programs with arrays on the heap."""
_SHORTEST_S = 0.002  # about the time to start a program


class Wanted(NamedTuple):
    """A program that is to run for a given time."""

    kind: str
    level: str
    heap: bool
    time_s: float

    @property
    def curve(self) -> str:
        """The name of the run times by size that say how large it must be."""
        return f"{self.kind} {self.level}"


def drawn(kinds: Sequence[str], rng: np.random.Generator) -> Iterator[Wanted]:
    """Yield programs without end: kinds take turns, all else is drawn."""
    while True:
        for kind in kinds:
            level = LEVELS[int(rng.integers(len(LEVELS)))]
            heap = bool(rng.random() < HEAP_SHARE)
            yield Wanted(kind, level, heap, float(rng.uniform(_SHORTEST_S, LONGEST_S)))


def sized(
    wanted: Sequence[Wanted], curves: Mapping[str, RunTimes], used: set[Program]
) -> list[Program]:
    """Return the programs for wanted run times, none of them twice.

    A size that was used before gives way to the next larger one.

    Args:
        wanted: as `drawn`.
        curves: run times by size, by `Wanted.curve`.
        used: programs of before; those returned are added.
    """
    programs = []
    for each in wanted:
        size = curves[each.curve].size_for(each.time_s)
        while (program := Program(each.kind, each.level, each.heap, size)) in used:
            size += 1
        used.add(program)
        programs.append(program)
    return programs
