"""Comparing what jobs are worth and what they used, and runs as wholes."""

from __future__ import annotations

import json

import polars as pl
import pytest

from simkit.analysis.compare import compare_runs
from simkit.errors import RunError
from simkit.experiment.api import simulate
from simkit.records import ENERGY, POWER

# submit, run time, start, status, worth, QoS, deadline: the last instant of the run is 100 s
JOBS = [
    (0.0, 10.0, 0.0, "finished", 5.0, 1.0, 10.0),  # at once
    (0.0, 10.0, 10.0, "finished", 7.0, 0.5, 19.0),  # just within its QoS, late for its deadline
    (0.0, 10.0, 11.0, "finished", 9.0, 0.5, None),  # later than its QoS allows; it has no deadline
    (0.0, 10.0, 0.0, "killed", 4.0, 0.1, 90.0),  # will never finish
    (0.0, 10.0, None, "rejected", 3.0, 0.1, 1e3),  # likewise
    (0.0, 10.0, None, "waiting", 2.0, 0.5, 200.0),  # its time was up; its deadline is to come
    (70.0, 30.0, 70.0, "finished", 1.0, 1.0, None),
]
EARNED = [5.0, 7.0, 9.0, 0.0, 0.0, 0.0, 1.0]
VIOLATED = [0, 0, 1, 1, 1, 1, 0]
MISSED = {1: 0, 2: 1, 4: 1, 5: 1}  # job → late; what is not here is unknown or has no deadline


@pytest.fixture
def write(write_run):
    """Return a function that writes a run whose jobs have worth, and perhaps bills."""

    def make(name, rows=JOBS, joules=None, metrics=None, **info):
        submit, run, start, status, value, qos, deadline = zip(*rows, strict=True)
        ids = list(range(1, len(rows) + 1))
        power = {} if joules is None else {"power": {"battery": None}}
        folder = write_run(
            name,
            {
                "job_id": ids, "submit_time_s": submit, "run_time_s": run,
                "processors": [1.0] * len(ids), "start_time_s": start, "status": status,
            },
            scenario={"policy": {"order": "fcfs"}, **power},
            **info,
        )  # fmt: skip
        worth = {"job_id": ids, "value": value, "qos": qos, "deadline_s": deadline}
        jobs = pl.read_parquet(folder / "jobs.parquet").join(pl.DataFrame(worth), on="job_id")
        jobs.write_parquet(folder / "jobs.parquet")
        (folder / "metrics.json").write_text(json.dumps(metrics or {}))
        if joules is not None:
            bills = dict.fromkeys(ENERGY, 0.0) | {"job_id": ids, "energy_j": joules}
            pl.DataFrame(bills).write_parquet(folder / "energy.parquet")
            pl.DataFrame(schema=dict.fromkeys(POWER, pl.Float64)).write_parquet(
                folder / "power.parquet"
            )
        return folder

    return make


def changed(job, **of):
    names = ("submit", "run", "start", "status", "value", "qos", "deadline")
    row = dict(zip(names, JOBS[job - 1], strict=True)) | of
    return [*JOBS[: job - 1], tuple(row.values()), *JOBS[job:]]


def test_every_job_counts_for_what_it_earned_and_whether_it_was_late(write):
    folder = write("a")
    names = ["job_value", "qos_violated", "deadline_missed"]
    value, violated, missed = compare_runs(folder, folder, metrics=names).differences
    assert (value.mean_a, value.n) == (pytest.approx(sum(EARNED) / 7), 7)
    assert (violated.mean_a, violated.n) == (pytest.approx(sum(VIOLATED) / 7), 7)
    assert (missed.mean_a, missed.n) == (pytest.approx(3 / 4), len(MISSED))
    assert missed.without_value == 7 - len(MISSED)


def test_more_value_is_better_and_fewer_late_jobs_are(write):
    b = write("b", changed(6, start=90.0, status="finished", qos=0.5))
    value, violated = compare_runs(write("a"), b, metrics=["job_value", "qos_violated"]).differences
    assert value.difference == pytest.approx(2 / 7)
    assert (value.better, value.worse) == (pytest.approx(1 / 7), 0)
    assert (violated.difference, violated.equal) == (0, 1)  # it finished, and too late


def test_bills_are_paired_by_job_and_those_of_jobs_that_never_ran_count(write):
    a = write("a", joules=[10.0, 20.0, 30.0, 5.0, 0.0, 0.0, 8.0])
    b = write("b", joules=[10.0, 10.0, 40.0, 5.0, 0.0, 0.0, 1.0])
    energy = compare_runs(a, b, metrics=["energy_j"]).differences[0]
    assert (energy.n, energy.unit) == (7, "J")
    assert energy.difference == pytest.approx(-7 / 7)
    assert (energy.better, energy.equal, energy.worse) == tuple(
        pytest.approx(n / 7) for n in (2, 4, 1)
    )


def test_value_and_energy_are_compared_by_default_if_both_sides_have_them(write, write_run):
    usual = ["wait_time_s", "turnaround_time_s", "bounded_slowdown"]
    worth = ["job_value", "qos_violated", "deadline_missed"]
    plain, full = write("plain"), write("full", joules=[0.0] * 7)
    for a, b, more in [
        (full, full, [*worth, "energy_j", "carbon_g", "cost"]),
        (full, plain, worth),
        (plain, write_run("bare", pl.read_parquet(plain / "jobs.parquet").drop("requested_time_s")
                          .with_columns(run_time_s="trace_run_time_s")), []),
    ]:  # fmt: skip
        found = [difference.metric for difference in compare_runs(a, b).differences]
        assert found == [*usual, *more]


def test_jobs_with_another_value_are_another_workload(write):
    a, b = write("a"), write("b", changed(2, value=8.0))
    with pytest.raises(
        RunError, match="value in 1 of 7 jobs, first in job 2: 7 and 8.*do not need it"
    ):
        compare_runs(a, b, metrics=["job_value"])
    assert compare_runs(a, b, metrics=["wait_time_s"]).differences[0].n == 5


METRICS = {
    "carbon_kg": {"value": 3.0, "load": 2.0, "unit": "kg CO2e", "count": 9, "censored": 0},
    "grid_kwh": {"import": 1.0, "export": None, "unit": "kWh", "count": 9, "censored": 0},
    "wait_time_s": {"mean": 5.0, "p99": 8.0, "unit": "s", "count": 9, "censored": 0},
}


def with_carbon(kg):
    return METRICS | {"carbon_kg": METRICS["carbon_kg"] | {"value": kg}}


def test_numbers_of_whole_runs_are_paired_by_seed(write):
    a = [write(f"a{seed}", metrics=with_carbon(3.0 + seed), seed=seed) for seed in range(3)]
    b = [write(f"b{seed}", metrics=with_carbon(1.0 + 2 * seed), seed=seed) for seed in range(3)]
    carbon, export = compare_runs(a, b, metrics=["carbon_kg", "grid_kwh.export"]).differences
    assert (carbon.mean_a, carbon.mean_b, carbon.difference) == (4.0, 3.0, -1.0)
    assert (carbon.n, carbon.of, carbon.unit, carbon.better) == (3, "runs", "kg CO2e", None)
    # Student's t of two degrees of freedom; the differences -2, -1, 0 have a deviation of 1
    assert carbon.interval.high == pytest.approx(-1 + 4.302653 / 3**0.5)
    assert (export.difference, export.n, export.without_value) == (None, 0, 3)


def test_one_run_a_side_has_a_difference_without_an_interval(write):
    a, b = write("a", metrics=METRICS), write("b", metrics=with_carbon(2.0))
    carbon, wait = compare_runs(a, b, metrics=["carbon_kg", "wait_time_s.p99"]).differences
    assert (carbon.difference, carbon.interval.low, carbon.interval.high) == (-1.0, None, None)
    assert "over several seeds" in carbon.interval.method
    assert (wait.difference, wait.of) == (0.0, "runs")


def test_errors_name_the_missing_metrics_and_those_there_are(write, write_run):
    a = write("a", metrics=METRICS)
    with pytest.raises(RunError) as told:
        compare_runs(a, a, metrics=["carbon_k", "energy_j", "wait_time_s"])
    assert str(told.value).splitlines() == [
        "compare: 'carbon_k' is not a metric of these runs; did you mean 'carbon_kg'?",
        "  'energy_j' needs the bills of a run with power, but not all runs have power",
        "  metrics of single jobs: wait_time_s, turnaround_time_s, slowdown, bounded_slowdown, "
        "per_processor_bounded_slowdown, job_value, qos_violated, deadline_missed",
        "  numbers of whole runs: carbon_kg, grid_kwh.import, grid_kwh.export; and their parts, such as "
        "wait_time_s.p99",
    ]
    bare = write_run("bare", {"job_id": [1], "submit_time_s": [0], "run_time_s": [1],
                              "processors": [1], "start_time_s": [0]})  # fmt: skip
    with pytest.raises(RunError, match="'job_value' needs the column value of the jobs"):
        compare_runs(bare, a, metrics=["job_value"])


def test_what_is_compared_adds_up_to_the_metrics_of_the_run():
    run = simulate(
        {
            "workload": {"type": "rare", "jobs": 60, "units": 4, "offered_load": 1.2},
            "value": {"qos": "two-classes", "deadlines": {"type": "slack", "factor": [2, 10]}},
            "power": {"machines": {"idle_w": 100, "full_w": 300}, "grid": {"price_per_kwh": 0.2}},
            "policy": {"order": "fcfs", "backfill": "easy"},
        }
    )
    names = ["job_value", "qos_violated", "deadline_missed", "energy_j"]
    value, violated, missed, energy = compare_runs(run, run, metrics=names).differences
    metrics = run.metrics
    assert value.mean_a * value.n == pytest.approx(metrics["job_value"]["value"])
    assert violated.mean_a == pytest.approx(metrics["qos_violations"]["share"])
    assert missed.mean_a == pytest.approx(metrics["deadline_misses"]["share"])
    assert energy.mean_a * energy.n == pytest.approx(metrics["load_kwh"]["jobs"] * 3.6e6)
