"""Writes the jobs of a run for other people's tools: as an SWF log, or as Batsim's jobs file."""

from __future__ import annotations

import os
from collections.abc import Callable
from os import PathLike
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.batsim import export_batsim
from simkit.errors import RunError
from simkit.results.compute_metrics import counted_resource
from simkit.results.run_folder import Run, open_run
from simkit.text import counted
from simkit.workload import JOB_COLUMNS, Workload

__all__ = ["export_batsim", "export_swf"]

_SWF_STATUS: Final = {"finished": 1.0, "killed": 0.0, "rejected": 5.0}


def export_swf(
    run: Run | str | PathLike[str],
    path: str | PathLike[str],
    *,
    writer: Callable[..., None] | None = None,
) -> None:
    """Write the jobs of a run as an SWF log with the waits and run times of the simulation.

    Status is 1 for finished, 0 for killed, 5 for rejected jobs and -1 for the others, whose wait
    or run time is -1 where it is not known. Users and other names that are text become the
    numbers 1, 2, … in alphabetical order.

    Args:
        run: a run, or its folder.
        path: the log to write; gzipped if it ends in ``.gz``.
        writer: instead of the one that is installed as "swf" in the group "simkit.writers".

    Raises RunError or TraceError if the jobs do not fit SWF (several tasks, fractions of a
    processor) or the file cannot be written.
    """
    if writer is None:
        from simkit.plugins import find

        writer = find("simkit.writers", "swf")
    opened = run if isinstance(run, Run) else open_run(run)
    _refuse_several_tasks(opened)
    jobs, resource = opened.jobs, counted_resource(opened.resources)
    writer(
        os.fspath(path),
        _workload(opened, jobs, resource),
        results={
            "wait_time_s": _floats(jobs["wait_time_s"]),
            "run_time_s": _floats(jobs["run_time_s"]),
            "status": np.array([_SWF_STATUS.get(s, np.nan) for s in jobs["status"]]),
        },
        notes=(f"the schedule of {opened.name}, simulated by simkit, digest {opened.digest}",),
    )


def _workload(run: Run, jobs: pl.DataFrame, resource: str) -> Workload:
    """Return the jobs as a workload of rigid jobs with the trace's run times."""
    size = jobs[resource].to_numpy()
    if (broken := size != np.floor(size)).any():
        job = jobs["job_id"][int(np.flatnonzero(broken)[0])]
        raise RunError(
            f"{run.folder}: job {job} asks for a fraction of {resource}, SWF has whole "
            "processors; export to Batsim's columns, or read jobs.parquet"
        )
    epoch = run.info.get("epoch_s")
    columns = {name: jobs[name].to_numpy() for name in ("job_id", "submit_time_s")}
    return Workload.from_jobs(
        {
            **columns,
            "run_time_s": _floats(jobs["trace_run_time_s"]),
            "requested_time_s": _floats(jobs["requested_time_s"]),
            resource: size,
            **{name: _numbers(jobs[name]) for name in JOB_COLUMNS},
        },
        resource=resource,
        epoch_s=float("nan") if epoch is None else float(epoch),
        time_zone=run.info.get("time_zone"),
        capacity={resource: run.capacity[resource]} if run.resources else {},
    )


def _refuse_several_tasks(run: Run) -> None:
    counts = run.scan("tasks").group_by("job_id").len().filter(pl.col("len") > 1)
    if len(several := counts.collect()):
        raise RunError(
            f"{run.folder}: {counted(len(several), 'job has', 'jobs have')} several tasks, SWF has "
            "one a job; export to Batsim's columns, or read the Parquet files"
        )


def _numbers(column: pl.Series) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return a column as numbers, -1 where unknown; text becomes its rank from 1."""
    if column.dtype.is_numeric():
        return column.fill_null(-1).to_numpy().astype(np.int64)
    text = column.fill_null("-1")
    known = ~text.is_in(["-1", ""])
    ranks = text.zip_with(known, text.clear(len(text))).rank("dense")
    return ranks.fill_null(-1).to_numpy().astype(np.int64)


def _floats(column: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    return column.fill_null(float("nan")).to_numpy().astype(np.float64)
