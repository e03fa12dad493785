"""Text about groups of jobs: a run's metrics by group, and the differences of two runs by group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simkit.cli.echo import echo
from simkit.cli.tables import print_table
from simkit.cli.text import quantity, say
from simkit.errors import RunError, did_you_mean
from simkit.results.all_metrics import measured
from simkit.results.group_metrics import WAIT_SHARE, By
from simkit.text import counted

if TYPE_CHECKING:
    import polars as pl

    from simkit.analysis.compare import Difference

MOST: Final = 20
"""Groups that are printed if nothing else is said."""


@dataclass(frozen=True)
class Groups:
    """How jobs are grouped for a table, and which groups it shows."""

    by: By
    sort: str | None = None
    """The number to sort by, the largest first; None: the usual order, names by their jobs."""
    top: int = MOST
    """Groups that are printed."""


_NUMBERS: Final = {
    "wait_time_s": "s", "wait_time_s.p90": "s", "turnaround_time_s": "s", "bounded_slowdown": "1",
    "bounded_slowdown.p90": "1",
}  # fmt: skip
"""Numbers that are printed → their unit."""
_STATES: Final = ("rejected", "killed", "unfinished")


def print_groups(found: pl.DataFrame, groups: Groups, own: Mapping[str, str]) -> None:
    """Print a row for each group of `metrics_by`, with the states that any of its jobs is in.

    `own` are the user's metrics → their units; those that groups have are columns too.
    """
    if groups.sort is not None:
        found = found.sort(groups.sort, descending=True, nulls_last=True, maintain_order=True)
    states = [state for state in _STATES if found[state].sum()]
    shown = _NUMBERS | {name: unit for name, unit in own.items() if name in found.columns}
    if groups.sort not in (None, "jobs", *states, *shown, WAIT_SHARE):
        shown[str(groups.sort)] = "s" if "_s" in str(groups.sort) else "1"
    rows = [
        [
            row[groups.by],
            *(f"{row[count]:,}" for count in ("jobs", *states)),
            "-" if row[WAIT_SHARE] is None else f"{row[WAIT_SHARE]:.1%}",
            *(quantity(row[name], unit) for name, unit in shown.items()),
        ]
        for row in found.head(groups.top).iter_rows(named=True)
    ]
    print_table([groups.by.capitalize(), "jobs", *states, WAIT_SHARE, *shown], rows)
    _say_left_out(len(found), groups)


def print_differences_by(groups: Groups, differences: Sequence[Difference]) -> None:
    """Print a table for each metric, a row for each group.

    Sorted by a metric, the groups with its largest differences come first in every table. Raises
    RunError for a metric that is not compared.
    """
    of_groups: dict[str, list[Difference]] = {}
    for row in differences:
        if row.group is not None:
            of_groups.setdefault(row.metric, []).append(row)
    if groups.sort is not None:
        if groups.sort not in of_groups:
            near = did_you_mean(groups.sort, of_groups)
            raise RunError(f"sort: {groups.sort!r} is not among the compared metrics{near}")
        rank = {row.group: row.difference for row in of_groups[groups.sort]}
        for rows in of_groups.values():
            rows.sort(key=lambda row: _last_if_unknown(rank[row.group]))
    for metric, found in of_groups.items():
        echo(f"\n{metric}")
        cells = [[str(r.group), *difference_cells(r), f"{r.n:,}"] for r in found[: groups.top]]
        print_table([groups.by.capitalize(), *DIFFERENCE_HEADS, "jobs"], cells)
        _say_left_out(len(found), groups)


def _last_if_unknown(difference: float | None) -> float:
    return math.inf if difference is None else -abs(difference)


DIFFERENCE_HEADS: Final = ("mean A", "mean B", "B - A", "low", "high", "better", "equal", "worse")
"""Heads of `difference_cells`."""


def difference_cells(row: Difference) -> list[str]:
    """Return means, difference, interval and shares of a difference as text."""
    means = (measured(row.metric, mean, row.unit) for mean in (row.mean_a, row.mean_b))
    apart = (row.difference, row.interval.low, row.interval.high)
    differences = (measured(row.metric, n, row.unit, difference=True) for n in apart)
    shares = ("-" if s is None else f"{s:.0%}" for s in (row.better, row.equal, row.worse))
    return [*means, *differences, *shares]


def _say_left_out(count: int, groups: Groups) -> None:
    if count > groups.top:
        say(
            "Left out", f"{counted(count - groups.top, 'more group')}; --top shows more, --json all"
        )
