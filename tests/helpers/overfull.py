"""Counts what of an SWF log cannot have happened, without simkit: a program of its own.

    python tests/helpers/overfull.py log.swf.gz 128

Prints jobs that ask for more than the machine has, and instants at which jobs start while more is
in use than there is. It walks the events one by one with plain Python.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path


def rows(path: Path) -> list[tuple[int, int, float, float, int]]:
    """Return (job, submit, wait, run, processors) of the lines that ran, as written."""
    found = []
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            if line.startswith(";") or not line.strip():
                continue
            field = line.split()
            run, size = float(field[3]), int(float(field[4]))
            if size <= 0:
                size = int(float(field[7]))
            if run > 0 and size > 0:
                found.append((int(field[0]), int(field[1]), float(field[2]), run, size))
    return found


def count(path: Path, capacity: int) -> dict[str, int]:
    """Return counts by name."""
    jobs = rows(path)
    events: dict[float, list[tuple[int, int]]] = {}
    for _, submit, wait, run, size in jobs:
        if wait >= 0:
            events.setdefault(submit + wait, []).append((1, size))
            events.setdefault(submit + wait + run, []).append((0, size))
    used = peak = instants = starts_over = 0
    for instant in sorted(events):
        for starts, size in events[instant]:
            used += size if starts else -size
        begun = sum(starts for starts, _ in events[instant])
        if begun and used > capacity:
            instants += 1
            starts_over += begun
        peak = max(peak, used)
    return {
        "too_large": sum(size > capacity for *_, size in jobs),
        "without_start": sum(wait < 0 for _, _, wait, _, _ in jobs),
        "instants_over_capacity": instants,
        "starts_over_capacity": starts_over,
        "peak": peak,
    }


if __name__ == "__main__":
    for name, number in count(Path(sys.argv[1]), int(sys.argv[2])).items():
        print(f"{name} {number}")
