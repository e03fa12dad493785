"""The schedules of other tools: a table of jobs with their starts, held against capacity and order.

    audit = verify_schedule("jobs.csv", processors=128, policy="easy")

Nothing is known of such a run but its table, so that few rules can be checked; they are those on
which simulators of the same policy have to agree.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Final, Literal, get_args

from simkit.errors import RunError, did_you_mean
from simkit.verify.audit import Audit
from simkit.verify.schedules.rules import check_capacity, check_easy, check_order, check_times
from simkit.verify.schedules.table import read_schedule

Claim = Literal["easy", "fcfs", "any"]
"""What a schedule claims: EASY backfilling in order of submission, first come first served without
backfilling, or no order at all."""

ENDINGS: Final = (".csv", ".tsv", ".txt", ".parquet", ".gz")
"""Endings of files that are read as tables of schedules."""


def verify_schedule(
    file: str | PathLike[str], *, processors: float, policy: Claim = "easy"
) -> Audit:
    """Check the schedule in a table.

    Args:
        file: a table with a header (.csv and the like, or .parquet) and a row a job: its number,
            submit, start and end, and processors; and, where it has one, the requested time, by
            which EASY plans. Times are in seconds, or dates. See `table.NAMES` for what columns
            may be called.
        processors: how many there are.
        policy: what the schedule claims; see `Claim`.

    Returns:
        The audit: `times` and `capacity` in any case, `order` of "fcfs", `easy` of "easy"; what is
        not claimed does not apply.

    Raises RunError if the table cannot be read, or an argument is out of range.
    """
    if policy not in get_args(Claim):
        raise RunError(f"policy: {policy!r} is no claim{did_you_mean(policy, get_args(Claim))}")
    if not processors > 0:
        raise RunError(f"processors: {processors!r}; a machine has more than 0")
    table = read_schedule(Path(file))
    checks = (
        check_times(table),
        check_capacity(table, processors),
        check_order(table, claimed=policy == "fcfs"),
        check_easy(table, processors, claimed=policy == "easy"),
    )
    return Audit(Path(file), checks)
