"""Metrics of worth against hand-made runs: every job counts, whatever became of it."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.results.all_metrics import compute_metrics
from simkit.results.job_metrics import value_metrics
from simkit.results.metric import RunWindow, run_window
from simkit.results.run_folder import MemoryRun

H = 3600.0
NEVER = None

# Jobs of 2 h, submitted at 0; a QoS of 0.5 allows for 4 h. The run's last instant is 5 h.
JOBS = {
    "job_id": [1, 2, 3, 4, 5, 6],
    "submit_time_s": [0.0, 0, 0, 0, 0, 0],
    "run_time_s": [2 * H] * 6,
    "processors": [1.0] * 6,
    "start_time_s": [0.0, 3 * H, NEVER, NEVER, NEVER, 1 * H],
    "status": ["finished", "finished", "waiting", "waiting", "rejected", "killed"],
    "reason": ["", "", "", "", "no", "why"],
}
WORTH = {
    "qos": [0.5, 0.5, 0.5, 0.1, 0.9, 0.5],  # job 4 may take 20 h
    "value": [1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    "deadline_s": [1 * H, 6 * H, NEVER, 9 * H, 9 * H, 9 * H],
}


def found(tables, worth=WORTH, **trim):
    jobs = (
        tables["jobs"]
        .sort("job_id")
        .with_columns(pl.Series(name, column, dtype=pl.Float64) for name, column in worth.items())
    )
    frames = [table.lazy() for table in (jobs, tables["allocations"], tables["timeline"])]
    window = run_window(frames[0], frames[2], **trim)
    return {metric.name: metric.as_json() for metric in value_metrics(*frames, window)}


@pytest.fixture
def metrics(run_tables):
    return found(run_tables(JOBS, 8))


@pytest.mark.parametrize(
    ("metric", "numbers", "count", "censored"),
    [
        # jobs 1 and 2 finished; 2 ended at 5 h, an hour late
        ("job_value", {"value": 3.0, "in_time": 1.0, "by_last_submit": 0.0}, 2, 4),
        ("value_ratio", {"value": 3 / 63, "in_time": 1 / 63, "by_last_submit": 0.0}, 6, 0),
        ("completion_ratio", {"value": 2 / 6, "by_last_submit": 0.0}, 6, 0),
        # late: 2, 3 (its 4 h are over), 5 (rejected), 6 (killed); in time: 1; nobody knows: 4
        ("qos_violations", {"value": 4, "share": 4 / 5}, 5, 1),
        # late: 1, 5, 6; in time: 2; nobody knows: 4; job 3 has none
        ("deadline_misses", {"value": 3, "share": 3 / 4}, 4, 1),
        # waits until its start or the last instant: 0, 3, 5, 5, none (rejected), 1 h
        ("delay_cost", {"value": 14.0}, 6, 0),
    ],
)
def test_by_hand(metrics, metric, numbers, count, censored):
    entry = metrics[metric]
    assert {name: entry[name] for name in numbers} == pytest.approx(numbers)
    assert (entry["count"], entry["censored"]) == (count, censored)


@pytest.mark.parametrize(
    ("columns", "names"),
    [
        ((), set()),
        (("qos",), {"qos_violations"}),
        (("value",), {"job_value", "value_ratio"}),
        (("deadline_s",), {"deadline_misses"}),
    ],
)
def test_metrics_are_those_of_the_columns_that_are_there(run_tables, columns, names):
    some = found(run_tables(JOBS, 8), {name: WORTH[name] for name in columns})
    always = {"completion_ratio", "delay_cost"} if columns else set()
    assert some.keys() == names | always
    if "job_value" in some:
        assert "in_time" not in some["job_value"]


def test_a_run_of_a_plain_log_has_no_metrics_of_value(run_tables):
    machines = [{"id": 0, "capacity": {"processors": 8}}]
    made = compute_metrics(
        MemoryRun(
            {"cluster": {"resources": ["processors"], "machines": machines}}, run_tables(JOBS, 8)
        )
    )
    assert not made.keys() & {"job_value", "completion_ratio", "delay_cost", "qos_violations"}


def test_an_end_at_the_very_due_time_is_in_time(run_tables):
    jobs = {name: column[:1] for name, column in JOBS.items()} | {"start_time_s": [2 * H]}
    worth = {name: column[:1] for name, column in WORTH.items()} | {"deadline_s": [4 * H]}
    exact = found(run_tables(jobs, 8), worth)
    assert exact["qos_violations"]["value"] == exact["deadline_misses"]["value"] == 0


def test_by_last_submit_is_as_if_the_run_ended_there(run_tables):
    """The last job comes at 2 h, when job 1 has just ended."""
    jobs = JOBS | {"submit_time_s": [0.0, 0, 2 * H, 0, 0, 0]}
    made = found(run_tables(jobs, 8))
    assert made["job_value"]["by_last_submit"] == 1.0
    assert made["value_ratio"]["by_last_submit"] == pytest.approx(1 / 63)
    assert made["completion_ratio"]["by_last_submit"] == pytest.approx(1 / 6)


def test_warm_up_leaves_jobs_out_of_all_of_them(run_tables):
    jobs = JOBS | {"submit_time_s": [0.0, 0, 0, 0, 0, 100.0]}
    trimmed = found(run_tables(jobs, 8), warmup=50.0)
    assert {name: entry["count"] + entry["censored"] for name, entry in trimmed.items()} == (
        dict.fromkeys(trimmed, 1)
    )
    assert trimmed["delay_cost"]["value"] == pytest.approx(1 - 100 / H)  # job 6 alone


def frame_of(pieces):
    columns = {"job_id": pl.Int64, "start_time_s": pl.Float64, "end_time_s": pl.Float64}
    return pl.DataFrame(pieces, schema=columns, orient="row").lazy()


@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(0, 20), st.integers(0, 9)), min_size=1, max_size=12
    )
)
def test_delay_is_the_time_in_which_a_job_holds_nothing(pieces):
    """Second by second: allocations of a job may overlap (instances) or leave gaps."""
    held = [(job, float(start), float(start + length)) for job, start, length in pieces]
    ids = sorted({job for job, _, _ in held})
    ends = {job: max(end for other, _, end in held if other == job) for job in ids}
    jobs = pl.DataFrame(
        {
            "job_id": ids,
            "status": ["finished"] * len(ids),
            "submit_time_s": [0.0] * len(ids),
            "end_time_s": [ends[job] for job in ids],
            "trace_run_time_s": [1.0] * len(ids),
            "value": [1.0] * len(ids),
        }
    ).lazy()
    timeline = pl.LazyFrame({"time_s": [0.0, 30.0]})
    made = value_metrics(jobs, frame_of(held), timeline, RunWindow(0, 0, max(ends.values())))
    idle = sum(
        not any(other == job and start <= second < end for other, start, end in held)
        for job in ids
        for second in range(int(ends[job]))
    )
    (delay,) = [metric for metric in made if metric.name == "delay_cost"]
    assert delay.values["value"] == pytest.approx(idle / 3600)
