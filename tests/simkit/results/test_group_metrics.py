"""Metrics by group: the groups share out all jobs, and each is a run's metrics of its own."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import RunError
from simkit.results.all_metrics import compute_metrics
from simkit.results.group_metrics import group_of
from simkit.results.job_metrics import JOB_METRICS
from simkit.results.run_folder import open_run

JOBS = {
    "job_id": [1, 2, 3, 4, 5, 6, 7],
    "submit_time_s": [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0],
    "run_time_s": [60.0, 61.0, 600.0, 3600.0, 3601.0, 90_000.0, 5.0],
    "processors": [1.0, 2.0, 4.0, 5.0, 16.0, 17.0, 1.0],
    "start_time_s": [0.0, 15.0, 30.0, 45.0, 60.0, 75.0, None],
    "user": ["ann", "bob", "ann", "", "bob", "ann", "ann"],
}


@pytest.fixture
def run(write_run):
    return open_run(write_run("run", JOBS))


def test_a_group_has_the_metrics_of_a_run_of_its_jobs(run, write_run):
    groups = run.metrics_by("user")
    assert groups["user"].to_list() == ["ann", "bob", "unknown"]  # most jobs first
    assert groups["jobs"].to_list() == [4, 2, 1]
    table = pl.DataFrame(JOBS)
    for row in groups.iter_rows(named=True):
        name = "" if row["user"] == "unknown" else row["user"]
        part = table.filter(pl.col("user") == name).to_dict(as_series=False)
        alone = compute_metrics(open_run(write_run(f"of {row['user']}", part)))
        for metric in JOB_METRICS:
            assert row[metric.name] == alone[metric.name]["mean"]
            for number in ("p50", "p90", "p99", "max"):
                assert row[f"{metric.name}.{number}"] == alone[metric.name][number]


def test_all_jobs_are_in_a_group_whatever_became_of_them(run):
    for by in ("partition", "queue", "user", "group", "size", "length"):
        groups = run.metrics_by(by)
        assert groups.columns[:2] == [by, "jobs"]
        assert groups["jobs"].sum() == 7
        assert groups["finished"].sum() == 6
        assert groups["unfinished"].sum() == 1
    assert run.metrics_by("queue")["queue"].to_list() == ["unknown"]


@pytest.mark.parametrize(
    ("columns", "groups"),
    [
        ({"site_partition": ["short", ""], "partition": ["", "4"]}, ["short", "none"]),
        ({"partition": ["", "4"]}, ["unknown", "4"]),
    ],
)
def test_jobs_that_no_partition_took_are_not_of_an_unknown_one(columns, groups):
    jobs = pl.LazyFrame(columns)
    named = jobs.select(group_of(jobs, "partition", "processors")).collect()
    assert named["partition"].to_list() == groups


def test_sizes_and_lengths_are_in_order_and_end_where_they_say(run):
    sizes = run.metrics_by("size")
    assert sizes["size"].to_list() == ["1", "2 to 4", "5 to 16", "17 to 64"]
    assert sizes["jobs"].to_list() == [2, 2, 2, 1]
    lengths = run.metrics_by("length")
    assert dict(lengths.select("length", "jobs").iter_rows()) == {
        "up to 1 min": 2, "1 min to 10 min": 2, "10 min to 1 h": 1, "1 h to 4 h": 1, "over 1 d": 1,
    }  # fmt: skip
    assert lengths["length"].to_list()[0] == "up to 1 min"


@given(size=st.integers(1, 10**9))
def test_a_size_is_in_the_group_that_names_it(size):
    jobs = pl.LazyFrame({"processors": [float(size)]})
    name = jobs.select(group_of(jobs, "size", "processors")).collect()["size"][0]
    low, _, high = name.replace(",", "").partition(" to ")
    assert int(low) <= size <= int(high or low)


def test_a_group_without_any_value_has_null(write_run):
    waiting = {name: values[-1:] for name, values in JOBS.items()}
    waiting["start_time_s"] = pl.Series([None], dtype=pl.Float64)
    groups = open_run(write_run("waiting", waiting)).metrics_by("user")
    assert groups.row(0, named=True)["wait_time_s"] is None
    assert groups.schema["wait_time_s.p99"] == pl.Float64


def test_what_jobs_are_not_grouped_by(run):
    with pytest.raises(RunError, match="'users' is no group of jobs; did you mean 'user'"):
        run.metrics_by("users")
