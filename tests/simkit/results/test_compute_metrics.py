"""Metrics against hand-made schedules, against sums over allocations and against references."""

from __future__ import annotations

import json
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import RunError
from simkit.results.all_metrics import compute_metrics
from simkit.results.run_folder import MemoryRun


def metrics_of(tables, capacity, **options):
    machines = [{"id": 0, "capacity": {"processors": capacity}}]
    run = MemoryRun({"cluster": {"resources": ["processors"], "machines": machines}}, tables)
    return compute_metrics(run, **options)


THREE_JOBS = {
    # job 1 fills half the machine, 2 the other half, 3 needs it all and waits for both
    "job_id": [1, 2, 3],
    "submit_time_s": [100.0, 100.0, 150.0],
    "run_time_s": [50.0, 100.0, 5.0],
    "processors": [2.0, 2.0, 4.0],
    "start_time_s": [100.0, 100.0, 200.0],
    "user": [7, 7, 8],
}


@pytest.fixture
def three(run_tables):
    return metrics_of(run_tables(THREE_JOBS, 4), 4)


@pytest.mark.parametrize(
    ("metric", "mean"),
    [
        ("wait_time_s", 50 / 3),
        ("turnaround_time_s", (50 + 100 + 55) / 3),
        ("slowdown", (1 + 1 + 55 / 5) / 3),
        ("bounded_slowdown", (1 + 1 + 55 / 10) / 3),  # run 5 s counts as tau, 10 s
        ("per_processor_bounded_slowdown", (1 + 1 + 55 / 40) / 3),  # by 4 processors
    ],
)
def test_job_metrics_follow_the_glossary(three, metric, mean):
    assert three[metric]["mean"] == pytest.approx(mean)
    assert (three[metric]["count"], three[metric]["censored"]) == (3, 0)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("makespan_s", 105),
        ("utilisation_processors", (100 + 200 + 20) / (4 * 105)),
        ("offered_load_processors", (100 + 200 + 20) / (4 * 50)),  # submits span 50 s
        ("throughput_jobs_per_h", 3 * 3600 / 105),
        ("awrt_s", (100 * 50 + 200 * 100 + 20 * 55) / 320),
        ("fairness_jain", (1 + 5.5) ** 2 / (2 * (1 + 5.5**2))),
        ("unsuccessful_share", 0),
    ],
)
def test_one_number_metrics(three, metric, value):
    assert three[metric]["value"] == pytest.approx(value)


def test_backlog_is_weighted_by_time(three):
    assert three["backlog"]["mean"] == pytest.approx(50 / 105)  # one task waits for 50 of 105 s
    assert three["backlog"]["max"] == 1


def test_metrics_are_plain_json_without_nan(run_tables):
    never_run = {**THREE_JOBS, "start_time_s": [None] * 3}
    found = metrics_of(run_tables(never_run, 4), 4)
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == found
    assert found["wait_time_s"]["mean"] is None
    assert found["wait_time_s"]["censored"] == found["makespan_s"]["censored"] == 3
    assert found["jobs"]["waiting"] == 3


def test_jobs_without_a_value_are_counted_not_averaged(run_tables):
    jobs = {
        # finished, ran for no time, still running, still waiting, rejected, killed
        "job_id": [1, 2, 3, 4, 5, 6],
        "submit_time_s": [0.0] * 6,
        "run_time_s": [10.0, 0.0, 99.0, 5.0, 5.0, 20.0],
        "processors": [1.0] * 6,
        "start_time_s": [0.0, 30.0, 40.0, None, None, 0.0],
        "status": ["finished", "finished", "running", "waiting", "rejected", "killed"],
    }
    found = metrics_of(run_tables(jobs, 4), 4)
    counts = {name: (m["count"], m["censored"]) for name, m in found.items()}
    assert counts["wait_time_s"] == (4, 2)
    assert counts["turnaround_time_s"] == (3, 3)
    assert counts["slowdown"] == (2, 4)  # a run of 0 s has no slowdown …
    assert counts["bounded_slowdown"] == (3, 3)  # … but a bounded one
    assert found["bounded_slowdown"]["max"] == pytest.approx(3)
    statuses = ("submitted", "finished", "killed", "rejected", "running", "waiting")
    assert [found["jobs"][s] for s in statuses] == [6, 2, 1, 1, 1, 1]
    assert found["throughput_jobs_per_h"]["count"] == 2
    assert found["unsuccessful_share"]["value"] == pytest.approx(20 / 30)
    assert found["fairness_jain"]["value"] is None  # no user is known
    assert found["fairness_jain"]["censored"] == 6


def test_warm_up_and_cool_down_leave_jobs_and_time_out(run_tables):
    jobs = {
        "job_id": [1, 2, 3, 4],
        "submit_time_s": [1000.0, 1010.0, 1090.0, 1100.0],
        "run_time_s": [100.0] * 4,
        "processors": [2.0] * 4,
        "start_time_s": [1000.0, 1011.0, 1093.0, 1200.0],
    }
    found = metrics_of(run_tables(jobs, 4), 4, warmup=10.0, cooldown=10.0)
    assert found["wait_time_s"]["mean"] == 2  # jobs 2 and 3, on the window's very edges
    assert found["wait_time_s"]["count"] == 2
    assert "00:00:10" in found["wait_time_s"]["window"] or "10 s" in found["wait_time_s"]["window"]
    # 1010 s to 1090 s: job 1 all the time, job 2 from 1011 s
    assert found["utilisation_processors"]["value"] == pytest.approx((160 + 158) / 320)
    assert found["makespan_s"]["value"] == 300  # never trimmed
    assert found["jobs"]["submitted"] == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tau": 0.0}, "tau"),
        ({"warmup": -1.0}, "warmup"),
        ({"cooldown": float("nan")}, "cooldown"),
        ({"warmup": 40.0, "cooldown": 20.0}, "leave nothing"),
    ],
)
def test_impossible_settings_are_refused(run_tables, options, words):
    with pytest.raises(RunError, match=words):
        metrics_of(run_tables(THREE_JOBS, 4), 4, **options)


def test_an_empty_run_has_only_counts(run_tables):
    tables = {name: frame.clear() for name, frame in run_tables(THREE_JOBS, 4).items()}
    found = metrics_of(tables, 4)
    assert list(found) == ["jobs"]
    assert found["jobs"]["submitted"] == 0


def test_fairness_is_the_same_for_named_and_numbered_users(run_tables):
    named = {**THREE_JOBS, "user": ["ann", "ann", "bob"]}
    numbers, names = (metrics_of(run_tables(jobs, 4), 4) for jobs in (THREE_JOBS, named))
    assert numbers["fairness_jain"] == names["fairness_jain"]


def test_capacity_that_goes_is_not_available_unless_it_drains(run_tables):
    tables = run_tables(THREE_JOBS, 4)
    at, held = pl.col("time_s"), pl.col("allocated_processors")
    total = pl.when(at < 155).then(6.0).otherwise(2.0).alias("capacity_processors")
    extra = tables["timeline"].filter(at == 150).with_columns(time_s=pl.lit(155.0))
    line = pl.concat([tables["timeline"], extra]).sort("time_s").with_columns(total)
    found = metrics_of({**tables, "timeline": line}, 4)
    # from 100 s 6 processors, from 155 s 2 for 50 s; or what is held, where that is more
    rows = line.with_columns(until=at.shift(-1)).filter(at >= 155, at < 205)
    held_after = rows.select((pl.max_horizontal(held, 2.0) * (pl.col("until") - at)).sum()).item()
    assert held_after > 2 * 50
    share = 320 / (6 * 55 + held_after)
    assert found["utilisation_processors"]["value"] == pytest.approx(share)


@given(seed=st.integers(0, 10_000), trim=st.floats(0, 2e5), rows=st.sampled_from([70, 1 << 18]))
def test_utilisation_from_the_timeline_equals_the_sum_over_allocations(
    run_tables, random_jobs, seed, trim, rows
):
    tables = run_tables(random_jobs(200, seed), 50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("simkit.results.metric.BATCH_ROWS", rows)
        found = metrics_of(tables, 50, warmup=trim, cooldown=trim)
    jobs, held = tables["jobs"], tables["allocations"]
    start, end = jobs["submit_time_s"].min() + trim, jobs["submit_time_s"].max() - trim
    if trim == 0:
        end = jobs["end_time_s"].max()
    seconds = held["end_time_s"].clip(start, end) - held["start_time_s"].clip(start, end)
    expected = (held["count"] * seconds).sum() / (50 * (end - start))
    assert found["utilisation_processors"]["value"] == pytest.approx(expected, rel=1e-12)


STARTS = {
    "FCFS": "start_fcfs_s",
    "EASY": "start_easy_s",
    "SJF": "start_sjf_s",
    "SJF+EASY": "start_sjf_easy_s",
}


def reference_rows(text):
    """Return (log, processors, jobs, policy, wait, bounded slowdown, utilisation, makespan)."""
    rows, log = [], ("", "", "")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 8 and re.fullmatch(r"[\d.]+", cells[-1]):
            log = tuple(cells[:3]) if cells[0] else log
            rows.append((*log, *cells[3:]))
    return rows


def test_published_reference_schedules_have_the_published_metrics(oracle, run_tables):
    rows = reference_rows((oracle / "README.md").read_text())
    assert len(rows) == 20
    logs = {}
    for log, processors, jobs, policy, wait, slowdown, usage, makespan in rows:
        if log not in logs:
            logs = {log: pl.read_csv(oracle / f"{log}.csv.gz")}
        table = logs[log].rename({STARTS[policy]: "start_time_s"})
        found = metrics_of(run_tables(table, int(processors)), int(processors))
        where = f"{log} {policy}"
        assert found["wait_time_s"]["count"] == int(jobs), where
        assert found["wait_time_s"]["mean"] == pytest.approx(float(wait), abs=5.1e-4), where
        mean = found["bounded_slowdown"]["mean"]
        assert mean == pytest.approx(float(slowdown), abs=5.1e-5), where
        assert found["utilisation_processors"]["value"] == pytest.approx(float(usage), abs=5.1e-5)
        assert found["makespan_s"]["value"] == float(makespan), where


def test_percentiles_are_those_of_numpy(run_tables, random_jobs):
    jobs = random_jobs(999, 1)
    waits = np.asarray(jobs["start_time_s"]) - jobs["submit_time_s"]
    found = metrics_of(run_tables(jobs, 50), 50)["wait_time_s"]
    assert found["p50"] == np.percentile(waits, 50)
    assert found["p99"] == np.percentile(waits, 99)
    assert found["std"] == pytest.approx(np.std(waits, ddof=1))
