"""Text about groups of jobs: a run's metrics by group, and the differences of two runs by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from simkit.cli.echo import echo
from simkit.cli.tables import print_table
from simkit.cli.text import quantity, say

if TYPE_CHECKING:
    import polars as pl

    from simkit.analysis.compare import Difference

MOST: Final = 20
"""Groups that are printed: those with the most jobs, or the shortest or smallest ones."""
_NUMBERS: Final = {
    "wait_time_s": "s", "wait_time_s.p90": "s", "turnaround_time_s": "s", "bounded_slowdown": "1",
    "bounded_slowdown.p90": "1",
}  # fmt: skip
"""Numbers that are printed → their unit."""
_STATES: Final = ("rejected", "killed", "unfinished")


def print_groups(groups: pl.DataFrame) -> None:
    """Print a row for each group of `metrics_by`, with the states that any of its jobs is in."""
    by = groups.columns[0]
    states = [state for state in _STATES if groups[state].sum()]
    rows = [
        [
            row[by],
            *(f"{row[count]:,}" for count in ("jobs", *states)),
            *(quantity(row[name], unit) for name, unit in _NUMBERS.items()),
        ]
        for row in groups.head(MOST).iter_rows(named=True)
    ]
    print_table([by.capitalize(), "jobs", *states, *_NUMBERS], rows)
    _say_left_out(len(groups))


def print_differences_by(by: str, differences: Sequence[Difference]) -> None:
    """Print a table for each metric, a row for each group."""
    of_groups: dict[str, list[Difference]] = {}
    for row in differences:
        if row.group is not None:
            of_groups.setdefault(row.metric, []).append(row)
    for metric, found in of_groups.items():
        echo(f"\n{metric}")
        rows = [[str(r.group), *difference_cells(r), f"{r.n:,}"] for r in found[:MOST]]
        print_table([by.capitalize(), *DIFFERENCE_HEADS, "jobs"], rows)
        _say_left_out(len(found))


DIFFERENCE_HEADS: Final = ("mean A", "mean B", "B - A", "low", "high", "better", "equal", "worse")
"""Heads of `difference_cells`."""


def difference_cells(row: Difference) -> list[str]:
    """Return means, difference, interval and shares of a difference as text."""
    numbers = (row.mean_a, row.mean_b, row.difference, row.interval.low, row.interval.high)
    shares = ("-" if s is None else f"{s:.0%}" for s in (row.better, row.equal, row.worse))
    return [*(quantity(number, row.unit) for number in numbers), *shares]


def _say_left_out(count: int) -> None:
    if count > MOST:
        say("Left out", f"{count - MOST:,} more groups; --json prints all")
