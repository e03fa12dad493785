"""Which programs are measured: all kinds equally often, with run times spread evenly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from simkit.traces.elf_bursts.programs import LEVELS, Program
from simkit.traces.elf_bursts.sizes import RunTimes

CLASSES = 10
LONGEST_S = 0.3
"""Run times are in tenths of this; programs that take longer are left out."""
HEAP_SHARE = 0.15
"""The share of programs with arrays on the heap."""
_SHORTEST_S = 0.002  # about the time to start a program


def curve_name(kind: str, level: str) -> str:
    """Return the name of a program's run times by size."""
    return f"{kind} {level}"


def planned(
    kinds: Sequence[str], curves: Mapping[str, RunTimes], rng: np.random.Generator
) -> Iterator[Program]:
    """Yield programs without end, none of them twice.

    The kinds take turns. Level, place of the arrays and wanted run time are drawn; a size that was
    used before gives way to the next larger one.

    Args:
        kinds: of `KINDS`.
        curves: run times by size, by `curve_name`.
        rng: draws.
    """
    used: set[Program] = set()
    while True:
        for kind in kinds:
            level = LEVELS[int(rng.integers(len(LEVELS)))]
            heap = bool(rng.random() < HEAP_SHARE)
            wanted_s = float(rng.uniform(_SHORTEST_S, LONGEST_S))
            size = curves[curve_name(kind, level)].size_for(wanted_s)
            while (program := Program(kind, level, heap, size)) in used:
                size += 1
            used.add(program)
            yield program
