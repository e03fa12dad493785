"""Metrics of machines against hand-made cases, and against a count second by second."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.experiment import carry_out, prepare
from simkit.results import machine_records as machine_segments
from simkit.results.all_metrics import compute_metrics
from simkit.results.machine_metrics import (
    MachineUtilisation,
    machine_metrics,
    utilisation_series,
)
from simkit.results.machine_records import MachineRecords, segments
from simkit.results.metric import RunWindow
from simkit.scenario.yaml_document import load_scenario
from simkit.workload import Workload
from simkit.workload.cluster import Cluster, Failures

ALLOCATIONS = {
    "job_id": pl.Int64,
    "task_id": pl.Int64,
    "machine_id": pl.Int64,
    "count": pl.Int64,
    "start_time_s": pl.Float64,
    "end_time_s": pl.Float64,
}
EVENTS = {"time_s": pl.Float64, "kind": pl.String, "machine_id": pl.Int64, "detail": pl.String}


def records_of(capacity, requests, allocations, changes=(), instances=None):
    """Records of cpu and mem.

    capacity: (cpu, mem) a machine; requests: (cpu, mem) a task, whose id is its row;
    allocations: (task, machine, count, start, end); changes: (time, machine, {resource: total}).
    """
    rows = [(0, task, *rest) for task, *rest in allocations]
    tasks = {
        "job_id": [0] * len(requests),
        "task_id": range(len(requests)),
        "instances": instances or [1] * len(requests),
        "cpu": [float(cpu) for cpu, _ in requests],
        "mem": [float(mem) for _, mem in requests],
    }
    told = [
        (float(time), "capacity", machine, json.dumps({"capacity": totals, "cause": "failure"}))
        for time, machine, totals in changes
    ]
    return MachineRecords(
        resources=("cpu", "mem"),
        capacity=np.array(capacity, dtype=float),
        allocations=pl.DataFrame(rows, schema=ALLOCATIONS, orient="row").lazy(),
        tasks=pl.DataFrame(tasks).lazy(),
        events=pl.DataFrame(told, schema=EVENTS, orient="row").lazy(),
    )


def measured(records, start=0.0, end=10.0):
    """Return metric → its numbers."""
    found = machine_metrics(records, records.requests(), RunWindow(start, start, end))
    return {metric.name: dict(metric.values) for metric in found}


TWO = [(4, 1), (2, 1)]
"""A machine with 4 cores and one with 2, memory 1 each."""


def test_each_machine_has_its_own_utilisation():
    # task 0 asks 1 core and 1/2 memory: two instances on machine 0 from 0 to 5
    found = measured(records_of(TWO, [(1, 0.5)], [(0, 0, 2, 0.0, 5.0)]))
    assert found["machine_utilisation_cpu"]["max"] == pytest.approx(2 * 5 / (4 * 10))
    assert found["machine_utilisation_cpu"]["mean"] == pytest.approx(0.25 / 2)
    assert found["machine_utilisation_mem"]["max"] == pytest.approx(0.5)
    assert found["machine_utilisation_cpu"]["std"] == pytest.approx(np.std([0.25, 0], ddof=1))


def test_a_capacity_change_names_only_the_resources_that_it_changes():
    found = measured(records_of([(4, 1)], [(1, 0.1)], [(0, 0, 1, 0.0, 10.0)], [(5, 0, {"cpu": 2})]))
    assert found["machine_utilisation_cpu"]["mean"] == pytest.approx(10 / (4 * 5 + 2 * 5))
    assert found["machine_utilisation_mem"]["mean"] == pytest.approx(0.1)


def test_machines_that_never_offer_anything_have_no_utilisation():
    records = records_of([(4, 1), (0, 0)], [(1, 0.1)], [(0, 0, 1, 0.0, 10.0)])
    found = machine_metrics(records, records.requests(), RunWindow(0, 0, 10))
    metric = next(m for m in found if m.name == "machine_utilisation_cpu")
    assert (metric.count, metric.censored) == (1, 1)


def test_a_run_without_allocations_or_time_has_numbers_and_no_nan():
    for end in (10.0, 0.0):
        found = measured(records_of(TWO, [], []), end=end)
        assert found["machines_in_use"]["max"] == 0
        for numbers in found.values():
            assert all(value is None or np.isfinite(value) for value in numbers.values())
    assert found["machines_in_use"]["mean"] is None  # no time at all


def test_a_resource_that_no_table_has_is_asked_by_nobody():
    records = records_of([(4, 1)], [(1, 0.5)], [(0, 0, 1, 0.0, 10.0)])
    bare = MachineRecords(
        records.resources, records.capacity, records.allocations,
        records.tasks.drop("mem"), records.events,
    )  # fmt: skip
    assert measured(bare)["machine_utilisation_mem"]["mean"] == 0


# ---- everything, second by second ----------------------------------------------------------------

MACHINES, SECONDS = 3, 12


@st.composite
def runs(draw):
    """Tasks, allocations and capacity changes at whole seconds on three machines."""
    amounts = st.sampled_from([0.0, 0.25, 1.0, 2.0])
    requests = draw(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=4))
    second = st.integers(-2, SECONDS + 3)
    held = draw(
        st.lists(
            st.tuples(
                st.integers(0, len(requests) - 1), st.integers(0, MACHINES - 1),
                st.integers(1, 3), second, st.one_of(st.none(), second),
            ),
            max_size=12,
        )
    )  # fmt: skip
    held = [(*rest, start, end) for *rest, start, end in held if end is None or end >= start]
    sizes = st.sampled_from([0.0, 1.0, 4.0])
    changes = draw(st.lists(st.tuples(second, st.integers(0, MACHINES - 1), sizes, sizes)))
    changes = sorted(changes, key=lambda change: change[0])
    weights = draw(st.lists(st.integers(1, 9), min_size=len(requests), max_size=len(requests)))
    return requests, held, [(t, m, {"cpu": c, "mem": d}) for t, m, c, d in changes], weights


def by_the_second(capacity, requests, held, changes):
    """Return (machine, second, resource) allocated and capacity, and (machine, second) instances."""
    allocated = np.zeros((MACHINES, SECONDS, 2))
    instances = np.zeros((MACHINES, SECONDS))
    offered = np.repeat(np.array(capacity, float)[:, None], SECONDS, axis=1)
    for second in range(SECONDS):
        for task, machine, count, start, end in held:
            if start <= second < (SECONDS if end is None else end):
                allocated[machine, second] += count * np.array(requests[task])
                instances[machine, second] += count
        for time, machine, totals in changes:
            if time <= second:
                offered[machine, second] = list(totals.values())
    return allocated, offered, instances


def gaps_of(idle):
    """Return the lengths of the runs of True."""
    words = "".join("i" if second else "." for second in idle)
    return np.array([len(word) for word in words.split(".") if word], dtype=float)


@given(runs(), st.sampled_from([1, 7, 1 << 18]))
def test_every_metric_equals_a_count_second_by_second(run, at_once):
    requests, held, changes, weights = run
    capacity = [(4, 1), (2, 2), (0, 0)]
    as_floats = [(*rest, float(s), None if e is None else float(e)) for *rest, s, e in held]
    records = records_of(capacity, requests, as_floats, changes, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine_segments, "CHANGES_AT_ONCE", at_once)
        found = measured(records, end=float(SECONDS))
        series = utilisation_series(records, 0.0, float(SECONDS), bins=SECONDS)
    allocated, offered, instances = by_the_second(capacity, requests, held, changes)
    free = np.maximum(offered - allocated, 0)
    available = np.maximum(offered, allocated)  # what drains is there until it is free

    busy = instances > 0
    assert found["machines_in_use"]["mean"] == pytest.approx(busy.sum() / SECONDS)
    assert found["machines_in_use"]["max"] == busy.sum(axis=0).max()
    assert found["machines_in_use"]["used"] == busy.any(axis=1).sum()
    assert series["in_use"].to_list() == pytest.approx(busy.sum(axis=0).tolist())

    idle = ~busy & (offered > 0).any(axis=2)
    gaps = [gaps_of(row) for row in idle]
    shares = [1 - (g**2).sum() / g.sum() ** 2 if len(g) else 0 for g in gaps]
    assert found["fragmentation_idle_time"]["mean"] == pytest.approx(np.mean(shares))
    assert found["fragmentation_idle_time"]["max"] == pytest.approx(np.max(shares))

    asked, weight = np.array(requests), np.array(weights) / sum(weights)
    for r, name in enumerate(("cpu", "mem")):
        there = available[:, :, r].sum(axis=1) > 0
        used = allocated[there, :, r].sum(axis=1) / available[there, :, r].sum(axis=1)
        assert (found[f"machine_utilisation_{name}"]["max"] or 0) == pytest.approx(
            used.max(initial=0)
        )
        stranded = free[:, :, r] * (free[:, :, 1 - r] < asked[:, 1 - r].min())
        total = available[:, :, r].sum()
        expected = stranded.sum() / total if total else None
        assert found[f"stranded_{name}"]["value"] == pytest.approx(expected)
        fits = (free[:, :, None, :] >= asked).all(axis=3) & (asked[:, r] > 0)
        unusable = (free[:, :, r] * ((1 - fits) * weight).sum(axis=2)).sum()
        all_free = free[:, :, r].sum()
        expected = unusable / all_free if all_free else None
        assert found[f"fragmentation_{name}"]["value"] == pytest.approx(expected)
        by_bin = allocated[:, :, r].sum(axis=0), available[:, :, r].sum(axis=0)
        expected = [part / whole if whole else None for part, whole in zip(*by_bin, strict=True)]
        assert series[f"utilisation_{name}"].to_list() == pytest.approx(expected)


# ---- the series for plots ------------------------------------------------------------------------


def test_the_series_shows_how_machines_differ():
    held = [(0, 0, 4, 0.0, 60.0)]
    records = records_of([(4, 1)] * 3, [(1, 0)], held)
    series = utilisation_series(records, 0.0, 120.0, bins=2)
    assert series["time_s"].to_list() == [0, 60]
    assert series["in_use"].to_list() == [1, 0]
    assert series["utilisation_cpu"].to_list() == pytest.approx([1 / 3, 0])
    assert series["utilisation_cpu_median"].to_list() == [0, 0]
    assert series["utilisation_cpu_high"].to_list() == pytest.approx([0.8, 0])


def test_a_series_over_no_time_has_no_rows():
    series = utilisation_series(records_of(TWO, [], []), 5.0, 5.0)
    assert len(series) == 0
    assert "utilisation_mem_low" in series.columns


# ---- runs of the engine --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def failing_run():
    """Bags of instances on four machines that fail every other minute or so."""
    rng = np.random.default_rng(5)
    tasks = 60
    bags = Workload(
        resources=("cpu", "mem"),
        job_id=np.arange(tasks // 2),
        submit_time_s=np.sort(rng.integers(0, 600, tasks // 2)).astype(float),
        first_task=np.arange(0, tasks + 1, 2),
        task_id=np.tile([1, 2], tasks // 2),
        instances=rng.integers(1, 12, tasks),
        request=np.column_stack((rng.choice([0.5, 1, 2], tasks), rng.choice([0.125, 0.25], tasks))),
        run_time_s=rng.integers(0, 60, tasks).astype(float),
        requested_time_s=np.full(tasks, np.nan),
        gang=np.zeros(tasks, bool),
    )
    capacity = np.array([[4, 1], [4, 1], [8, 1], [2, 0.5]], float)
    cluster = Cluster(("cpu", "mem"), tuple("abcd"), capacity, failures=Failures(mtbf=120, mttr=30))
    scenario = load_scenario({"workload": {"type": "poisson", "jobs": 1, "processors": 1,
                                           "offered_load": 0.5},
                              "cluster": {"processors": 1}, "policy": {"order": "fcfs"}})  # fmt: skip
    return carry_out(prepare(scenario, workload=bags, cluster=cluster))


def test_the_machines_together_are_the_cluster_of_the_timeline(failing_run):
    records, found = MachineRecords.of(failing_run), compute_metrics(failing_run)
    jobs = failing_run.jobs
    start, end = jobs["submit_time_s"].min(), jobs["end_time_s"].max()
    used = MachineUtilisation(records.resources, 4)
    for part in segments(records, records.requests(), start, end):
        assert (part.allocated <= part.capacity).all()  # failed machines drop what they hold
        used.add(part)
    for r, name in enumerate(records.resources):
        together = used.allocated[:, r].sum() / used.available[:, r].sum()
        assert together == pytest.approx(found[f"utilisation_{name}"]["value"], rel=1e-12)
    assert found["machine_utilisation_cpu"]["count"] == 4


def test_lost_work_is_the_unsuccessful_share(failing_run):
    found = compute_metrics(failing_run)
    assert found["retries"]["value"] > 0
    assert found["attempts"]["max"] > 1
    assert found["completed_instances"]["value"] == 1
    held = failing_run.allocations
    seconds = (held["count"] * (held["end_time_s"] - held["start_time_s"])).sum()
    share = found["unsuccessful_share"]["value"]
    assert found["lost_instance_s"]["value"] == pytest.approx(share * seconds)
