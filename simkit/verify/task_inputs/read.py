"""Reads the table of a run's workload again: of jobs, of tasks, or Alibaba's batch tables."""

from __future__ import annotations

import tarfile
import zlib
from collections.abc import Mapping
from typing import Any

import polars as pl

from simkit.verify.folder import RunFolder
from simkit.verify.inputs import MissingInputError, inputs_below
from simkit.verify.task_inputs.batch import read_batch
from simkit.verify.task_inputs.columns import cells, known
from simkit.verify.task_inputs.dates import are_dates, start_of, unix_times
from simkit.verify.task_inputs.input_tasks import InputTasks
from simkit.verify.task_inputs.job_table import read_job_table
from simkit.verify.task_inputs.task_table import read_task_table
from simkit.verify.task_inputs.text_table import read_table
from simkit.verify.task_inputs.transforms import transformed

TASK_TABLES = ("jobs", "tasks", "alibaba2017")
"""Types of workload whose rows are tasks, or jobs of one task."""


def read_input_tasks(run: RunFolder) -> InputTasks:
    """Read the files of the run's workload again."""
    workload = run.setting("workload") or {}
    if reason := _why_not_reread(workload):
        return InputTasks(pl.DataFrame(), reason=reason)
    if run.setting("value", "gpu"):
        return InputTasks(pl.DataFrame(), reason="the scenario adds GPUs to the jobs")
    try:
        if workload["type"] != "alibaba2017":
            path = next(inputs_below(run, str(workload["path"])), None)
            if path is None:
                raise MissingInputError("the table is not among the recorded inputs")
            read = read_job_table if workload["type"] == "jobs" else read_task_table
            found = read(path, workload)
        else:
            found = read_batch(run, workload)
        return transformed(found, workload, run.manifest["epoch_s"])
    except MissingInputError as error:
        return InputTasks(pl.DataFrame(), reason=str(error))
    except (OSError, EOFError, ValueError, zlib.error, tarfile.TarError) as error:
        return InputTasks(pl.DataFrame(), problem=str(error) or type(error).__name__)


def table_epoch(run: RunFolder) -> float | None:
    """Return the Unix time of second 0 of a table of jobs or tasks; None if it has no dates.

    Raises MissingInputError for a file that is missing or has dates that are not read again, and
    ValueError for one that cannot be read.
    """
    workload = run.setting("workload") or {}
    if not workload.get("path"):
        raise MissingInputError("the scenario names no table")
    path = next(inputs_below(run, str(workload["path"])), None)
    if path is None:
        raise MissingInputError("the table is not among the recorded inputs")
    column = (workload.get("columns") or {}).get("submit_time_s", "submit_time_s")
    submit = known(cells(read_table(path, workload, [column])[column]), workload)
    if not are_dates(submit, workload):
        return None
    if workload.get("zero"):
        return start_of(workload)
    return min((at for at in unix_times(submit, workload) if at is not None), default=None)


def _why_not_reread(workload: Mapping[str, Any]) -> str:
    kind = workload.get("type")
    if kind not in TASK_TABLES:
        return f"the workload's type is {kind!r}"
    if not workload.get("path"):
        return "the scenario names no table"
    if workload.get("rules"):
        return f"the workload has rules: {workload['rules']}"
    return ""
