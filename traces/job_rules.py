"""The rules for rigid jobs: which processors and requested time count, which rows are left out.

They are apart from the readers, because they are a choice of the experiment: a reader reads, a
named and counted rule repairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from simkit.errors import TraceError, did_you_mean
from simkit.workload import Bools, Floats, Ints

from . import rules
from .rules import Tally

Processors = Literal["allocated", "requested"]
RequestedTime = Literal["max", "raw"]
Count = Callable[[str, "npt.NDArray[np.integer]"], None]

LARGEST = 2.0**33
"""Times and processors must be below: the clock is exact for 272 years."""
LARGEST_ID = 2.0**53
"""Job numbers must be below: above, a double cannot tell neighbours apart."""


@dataclass(frozen=True)
class RawJobs:
    """Columns of rows as a log has them, (n,) each; times in seconds; negative means missing."""

    line: Ints
    job: Floats
    submit: Floats
    run: Floats
    allocated: Floats
    requested: Floats
    requested_time: Floats


@dataclass(frozen=True)
class KeptJobs:
    """The rows that became jobs, (k,) each."""

    row: Ints
    """Which rows they were, ascending."""
    processors: Floats
    """At least 1, whole."""
    requested_time: Floats
    """Seconds; NaN where the log has none and the rules leave it so."""


@dataclass(frozen=True)
class JobRules:
    """The choices that a scenario has.

    Raises TraceError for a choice that does not exist.
    """

    processors: Processors = "allocated"
    """Which count is taken first; the other where it is missing."""
    requested_time: RequestedTime = "max"
    """``max``: the larger of requested and run time, the run time where none was requested;
    ``raw``: as the log has it, NaN where it is missing."""
    keep_zero_run: bool = False
    """Keep jobs with a run time of 0."""

    def __post_init__(self) -> None:
        """Check the names of the choices."""
        for name, choices in (("processors", Processors), ("requested_time", RequestedTime)):
            value, known = getattr(self, name), get_args(choices)
            if value not in known:
                raise TraceError(f"{name}: {value!r} is no rule{did_you_mean(str(value), known)}")

    def apply(self, rows: RawJobs, tally: Tally) -> KeptJobs:
        """Leave out and repair rows, each counted in `tally` under the first rule that applies."""
        first, other = rows.allocated, rows.requested
        if self.processors == "requested":
            first, other = other, first
        processors = np.where(first > 0, first, other)
        kept = self._drop(rows, processors, tally)
        processors, first = processors[kept], first[kept]
        run, requested = rows.run[kept], rows.requested_time[kept]
        missing = ~(requested > 0)
        wanted, late = np.where(missing, np.nan, requested), np.zeros(len(kept), dtype=bool)
        if self.requested_time == "max":
            late = run > wanted
            wanted = np.fmax(wanted, run)
        else:
            missing = late
        other_used = (
            rules.FROM_REQUESTED if self.processors == "allocated" else rules.FROM_ALLOCATED
        )
        whole = np.ceil(processors)
        repairs = {
            other_used: first <= 0,
            rules.ROUNDED_UP: whole != processors,
            rules.NO_REQUEST: missing,
            rules.RAISED: late,
        }
        unchanged = first_that_applies(repairs, rows.line[kept], tally.repair)
        tally.accept(int(np.count_nonzero(unchanged)))
        return KeptJobs(kept, whole, wanted)

    def _drop(self, rows: RawJobs, processors: Floats, tally: Tally) -> Ints:
        usable = np.abs(rows.job) < LARGEST_ID
        for column in (
            rows.submit, rows.run, rows.allocated, rows.requested, rows.requested_time,
        ):  # fmt: skip
            usable &= np.abs(column) < LARGEST
        drops = {
            rules.NOT_A_NUMBER: ~usable,
            rules.NO_SUBMIT: rows.submit < 0,
            rules.NO_RUN: rows.run < 0,
            rules.ZERO_RUN: (rows.run == 0) & (not self.keep_zero_run),
            rules.NO_PROCESSORS: ~(processors > 0),
        }
        tally.read(len(rows.line))
        return np.flatnonzero(first_that_applies(drops, rows.line, tally.drop))


def first_that_applies(masks: dict[str, Bools], lines: Ints, count: Count) -> Bools:
    """Count every row under the first rule whose mask holds; return the rows that none met."""
    left = np.ones(len(lines), dtype=bool)
    for rule, mask in masks.items():
        hit = mask & left
        count(rule, lines[hit])
        left &= ~hit
    return left
