"""Applies the rules for tables of tasks: rows are left out or repaired, by name and counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.workload import Bools

from . import task_table_rules as names
from .job_rules import LARGEST, first_that_applies
from .rules import Tally
from .task_table_columns import TableColumns
from .task_table_rules import NegativeRun, ZeroRun


def judge(
    table: TableColumns,
    resources: Sequence[str],
    negative_run: NegativeRun,
    zero_run: ZeroRun,
    tally: Tally,
) -> Bools:
    """Count rows under the first rule that holds; return which are kept, (n,)."""
    frame, line = table.frame, table.line
    run = table.numbers("run_time_s")
    no_id = frame["job_id"].is_null().to_numpy()
    if "task_id" in frame:
        no_id = no_id | frame["task_id"].is_null().to_numpy()
    bad_request = np.zeros(len(table), dtype=bool)
    for name in resources:
        amount = table.numbers(name)
        bad_request |= ~((amount >= 0) & (amount < LARGEST))
    drops = {
        names.NO_ID: no_id,
        names.BAD_SUBMIT: ~(np.abs(table.numbers("submit_time_s")) <= LARGEST / 2),
        names.BAD_RUN: ~(np.abs(run) < LARGEST),
        names.NEGATIVE_RUN: (run < 0) & (negative_run == "drop"),
        names.ZERO_RUN: (run == 0) & (zero_run == "drop"),
        names.BAD_INSTANCES: _bad_instances(table),
        names.BAD_REQUEST: bad_request,
    }
    tally.read(len(table))
    left = first_that_applies(drops, line, tally.drop)
    repaired = left & (run < 0)
    tally.repair(names.NEGATIVE_RUN, line[repaired])
    tally.accept(int(np.count_nonzero(left & ~repaired)))
    return left


def _bad_instances(table: TableColumns) -> Bools:
    if "instances" not in table.frame:
        return np.zeros(len(table), dtype=bool)
    count = table.numbers("instances")
    bad: Bools = ~((count >= 1) & (count < LARGEST)) | (np.floor(count) != count)
    return bad
