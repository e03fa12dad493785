"""Metrics of tasks and instances against a run that was written by hand."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from simkit.records import EVENTS, TASKS
from simkit.results.all_metrics import compute_metrics
from simkit.results.machine_records import MachineRecords
from simkit.results.metric import RunWindow
from simkit.results.run_folder import MemoryRun
from simkit.results.task_metrics import task_metrics

JOBS = {
    # both tasks finish; one task is killed; rejected
    "job_id": ["a", "b", "c"],
    "submit_time_s": [0.0, 100.0, 200.0],
    "status": ["finished", "killed", "rejected"],
}
TASK_ROWS = [
    # job, task, instances, start, end, status, cpu, mem
    ("a", 1, 3, 0.0, 60.0, "finished", 2.0, 0.5),
    ("a", 2, 1, 60.0, 3600.0, "finished", 1.0, 0.25),
    ("b", 1, 2, 100.0, 150.0, "killed", 4.0, 0.0),
    ("c", 1, 9, None, None, "rejected", 99.0, 9.0),
]
HELD = [
    # job, task, machine, first, count, attempt, start, end, outcome
    ("a", 1, 0, 0, 2, 1, 0.0, 30.0, "finished"),
    ("a", 1, 1, 2, 1, 1, 0.0, 20.0, "lost"),  # its machine fails, and once more
    ("a", 1, 0, 2, 1, 2, 20.0, 25.0, "lost"),
    ("a", 1, 0, 2, 1, 3, 30.0, 60.0, "finished"),
    ("b", 1, 1, 0, 2, 1, 100.0, 150.0, "killed"),
    ("a", 2, 1, 0, 1, 1, 60.0, 100.0, "suspended"),
    ("a", 2, 1, 0, 1, 1, 200.0, 3600.0, "finished"),
]


def records_of(held=HELD):
    columns = ("job_id", "task_id", "instances", "start_time_s", "end_time_s", "status")
    tasks = pl.DataFrame(TASK_ROWS, schema=[*columns, "cpu", "mem"], orient="row")
    submits = pl.col("job_id").replace_strict(dict(zip(*list(JOBS.values())[:2], strict=True)))
    tasks = tasks.with_columns(
        gang=pl.lit(value=False),
        ready_time_s=pl.when(pl.col("task_id") == 2).then(30.0).otherwise(submits),
        trace_run_time_s=pl.lit(None, pl.Float64),
    )
    allocations = pl.DataFrame(
        held,
        schema=["job_id", "task_id", "machine_id", "first_instance", "count", "attempt",
                "start_time_s", "end_time_s", "outcome"],
        orient="row",
    )  # fmt: skip
    events = dict.fromkeys(EVENTS, pl.String) | {"time_s": pl.Float64, "machine_id": pl.Int64}
    return MachineRecords(
        resources=("cpu", "mem"),
        capacity=np.array([[64.0, 1.0]] * 2),
        allocations=allocations.lazy(),
        tasks=tasks.select(*TASKS, "cpu", "mem").lazy(),
        events=pl.DataFrame(schema=events).lazy(),
    )


def measured(records, window=None):
    window = window or RunWindow(0.0, 200.0, 3600.0)
    jobs = pl.DataFrame(JOBS).lazy()
    found = task_metrics(records, records.requests(), jobs, window)
    return {metric.name: metric for metric in found}


@pytest.fixture(scope="module")
def found():
    return measured(records_of())


def test_tasks_are_counted_by_status(found):
    numbers = dict(found["tasks"].values)
    assert numbers.pop("submitted") == sum(numbers.values()) == 4
    assert (numbers["finished"], numbers["killed"], numbers["rejected"]) == (2, 1, 1)


@pytest.mark.parametrize(
    ("what", "finished", "of"),
    [("jobs", 1, 3), ("tasks", 2, 4), ("instances", 4, 15)],
)
def test_completed_shares_are_of_everything_submitted(found, what, finished, of):
    metric = found[f"completed_{what}"]
    assert metric.values["value"] == pytest.approx(finished / of)
    assert (metric.count, metric.censored) == (finished, of - finished)


def test_a_tasks_turnaround_starts_with_its_job(found):
    metric = found["task_turnaround_time_s"]
    assert metric.values["mean"] == pytest.approx((60 + 3600 + 50) / 3)
    assert (metric.count, metric.censored) == (3, 1)  # the rejected task has no end


def test_instances_wait_until_their_first_start(found):
    # three of task 1 of job a and two of job b start at once; task 2 could start at 30 s and
    # started at 60 s; starting over and resuming do not count, the rejected nine are censored
    metric = found["instance_wait_time_s"]
    assert (metric.values["mean"], metric.values["p50"], metric.values["max"]) == (5, 0, 30)
    assert (metric.count, metric.censored) == (6, 9)


def test_turnarounds_are_those_of_the_windows_jobs():
    late = measured(records_of(), RunWindow(0.0, 200.0, 3600.0, warmup_s=50.0))
    metric = late["task_turnaround_time_s"]
    assert metric.values["mean"] == 50  # job b alone has one
    assert (metric.count, metric.censored) == (1, 1)
    assert late["tasks"].values["submitted"] == 4  # counts are never trimmed


def test_throughput_counts_what_finished_within_the_window():
    whole = measured(records_of())
    assert whole["throughput_tasks_per_h"].values["value"] == 2  # in one hour
    assert whole["throughput_instances_per_h"].values["value"] == 4
    half = measured(records_of(), RunWindow(0.0, 200.0, 1800.0))
    assert half["throughput_tasks_per_h"].values["value"] == 2  # one in half an hour
    assert half["throughput_instances_per_h"].values["value"] == 6


def test_retries_and_attempts(found):
    assert found["retries"].values["value"] == 2
    # four instances finished, one of them at its third attempt
    assert found["attempts"].values == {"mean": (1 + 1 + 3 + 1) / 4, "max": 3}
    assert (found["attempts"].count, found["attempts"].censored) == (4, 4)


IN_VAIN = [
    ("lost_instance_s", 20 + 5),
    ("lost_cpu_s", 2 * 25),
    ("lost_mem_s", 0.5 * 25),
    ("killed_instance_s", 2 * 50),
    ("killed_cpu_s", 4 * 2 * 50),
    ("killed_mem_s", 0),
]


@pytest.mark.parametrize(("name", "value"), IN_VAIN)
def test_lost_work_is_what_was_held_from_start_to_end(found, name, value):
    assert found[name].values["value"] == pytest.approx(value)
    assert found[name].unit == ("s" if "instance" in name else f"{name.split('_')[1]} s")


def test_what_still_runs_is_censored():
    held = [*HELD[:1], ("a", 1, 0, 2, 1, 1, 0.0, None, "running")]
    found = measured(records_of(held))
    assert (found["lost_cpu_s"].count, found["lost_cpu_s"].censored) == (1, 1)
    assert found["completed_instances"].count == 2


def test_a_run_in_which_nothing_started_has_counts_and_no_nan():
    found = measured(records_of(HELD[:0]))
    assert found["attempts"].values == {"mean": None, "max": None}
    assert found["retries"].values["value"] == 0
    text = json.dumps([metric.as_json() for metric in found.values()], allow_nan=False)
    assert "NaN" not in text


# ---- where they appear ---------------------------------------------------------------------------

THREE = {
    "job_id": [1, 2],
    "submit_time_s": [0.0, 0.0],
    "run_time_s": [50.0, 100.0],
    "processors": [2.0, 2.0],
    "start_time_s": [0.0, 0.0],
}


def metrics_of(tables, machines, *, gang):
    tables["tasks"] = tables["tasks"].with_columns(gang=pl.lit(value=gang))
    tables["allocations"] = tables["allocations"].with_columns(
        machine_id=pl.col("job_id") % machines
    )
    capacity = {"processors": 4.0 / machines}
    cluster = [{"id": number, "capacity": capacity} for number in range(machines)]
    return compute_metrics(
        MemoryRun({"cluster": {"resources": ["processors"], "machines": cluster}}, tables)
    )


@pytest.mark.parametrize(
    ("machines", "gang", "of_tasks", "of_machines"),
    [
        (1, True, False, False),  # a pool of processors and rigid jobs
        (1, False, True, False),
        (2, True, True, True),
        (2, False, True, True),
    ],
)
def test_metrics_of_tasks_and_machines_appear_if_they_add_something(
    run_tables, machines, gang, of_tasks, of_machines
):
    found = metrics_of(run_tables(THREE, 4), machines, gang=gang)
    assert ("task_turnaround_time_s" in found) == of_tasks
    assert ("machine_utilisation_processors" in found) == of_machines
    assert list(found)[-1] == "jobs"
    for metric in found.values():
        assert {"unit", "formula", "window", "count", "censored"} <= metric.keys()
