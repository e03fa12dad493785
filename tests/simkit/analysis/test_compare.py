"""Comparing runs: pairs by job, nothing dropped silently, different workloads refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simkit.analysis.compare import compare_runs
from simkit.errors import RunError

WEEK_S = 7 * 86400.0


def jobs(shift=0.0, count=40, seed=0):
    rng = np.random.default_rng(seed)
    submit = np.arange(count) * WEEK_S / 2
    wait = rng.integers(0, 100, count) + shift
    return {
        "job_id": list(range(1, count + 1)),
        "submit_time_s": submit.tolist(),
        "run_time_s": [60.0] * count,
        "processors": [2.0] * count,
        "start_time_s": (submit + wait).tolist(),
    }


def changed(table, row, **values):
    return {k: [*v[:row], values.get(k, v[row]), *v[row + 1 :]] for k, v in table.items()}


def test_differences_are_b_minus_a(write_run):
    result = compare_runs(write_run("a", jobs()), write_run("b", jobs(shift=10)))
    wait, turnaround, slowdown = result.differences
    assert (wait.metric, wait.unit, wait.n) == ("wait_time_s", "s", 40)
    assert wait.difference == pytest.approx(10) == wait.mean_b - wait.mean_a
    assert wait.interval.low == pytest.approx(10) == wait.interval.high
    assert turnaround.difference == pytest.approx(10)
    assert slowdown.difference == pytest.approx(10 / 60)
    assert (wait.better, wait.equal, wait.worse) == (0, 0, 1)
    assert result.notes() == []
    assert "20 weeks" in wait.interval.method


def test_a_run_compared_with_itself_is_equal(write_run):
    folder = write_run("a", jobs())
    wait = compare_runs(folder, folder).differences[0]
    assert (wait.difference, wait.equal, wait.interval.low, wait.interval.high) == (0, 1, 0, 0)


def test_the_frame_has_one_row_a_metric(write_run):
    folder = write_run("a", jobs())
    result = compare_runs(folder, folder, metrics=["slowdown", "wait_time_s"])
    frame = result.frame()
    assert frame["metric"].to_list() == ["slowdown", "wait_time_s"]
    assert {"mean_a", "mean_b", "difference", "low", "high", "method", "n"} <= set(frame.columns)
    json.dumps(result.as_json())


def test_jobs_of_one_run_only_and_unfinished_ones_are_counted_and_named(write_run):
    fewer = {name: column[1:] for name, column in jobs().items()}  # job 1 is missing
    a = write_run("a", changed(jobs(), 4, start_time_s=None))
    b = write_run("b", changed(fewer, 6, start_time_s=None))
    result = compare_runs(a, b)
    assert (result.only_in_a, result.only_in_b) == ((1,), ())
    assert (result.unfinished_in_a, result.unfinished_in_b) == ((5,), (8,))
    assert (result.differences[0].n, result.differences[0].without_value) == (37, 2)
    assert result.notes() == [
        "1 job only in A (a, fcfs + easy): 1",
        "1 job not ended in A (a, fcfs + easy): 5",
        "1 job not ended in B (b, fcfs + easy): 8",
    ]


WORKLOADS = [
    # one job differs in what the trace says of it, and the error says in what
    (changed(jobs(), 3, submit_time_s=1.0), "submit_time_s in 1 of 40 jobs, first in job 4"),
    (changed(jobs(), 3, processors=1.0), "processors in 1 of 40 jobs"),
    (changed(jobs(), 3, run_time_s=1.0), "trace_run_time_s in 1 of 40 jobs"),
    ({**jobs(), "job_id": [f"j{i}" for i in range(40)]}, "numbers in one and text"),
    ({**jobs(), "job_id": list(range(100, 140))}, "no job id is in both"),
    ({**jobs(), "job_id": [1, *range(1, 40)]}, "job 1 occurs more than once"),
]


@pytest.mark.parametrize(("other", "words"), WORKLOADS)
def test_different_workloads_are_refused(write_run, other, words):
    with pytest.raises(RunError, match=words):
        compare_runs(write_run("a", jobs()), write_run("b", other))


def facts(sha, policy_sha="1"):
    return {
        "scenario": {"workload": {"type": "swf", "path": "x/log.swf"}},
        "inputs": [
            {"path": "/y/my_policy.py", "sha256": policy_sha, "bytes": 1},
            {"path": "/x/log.swf", "sha256": sha, "bytes": 1},
        ],
    }


def test_other_files_of_the_workload_are_refused_but_other_policies_compared(write_run):
    a, b, c = (
        write_run(name, jobs(), **facts(sha, policy))
        for name, sha, policy in [("a", "1", "1"), ("b", "2", "1"), ("c", "1", "2")]
    )
    with pytest.raises(RunError, match="the workload's files differ"):
        compare_runs(a, b)
    assert compare_runs(a, c).differences[0].n == 40


def test_several_runs_are_paired_by_seed(write_run):
    a = [write_run(f"a{seed}", jobs(seed=seed), seed=seed) for seed in range(3)]
    b = [write_run(f"b{seed}", jobs(10 + seed, seed=seed), seed=seed) for seed in (2, 0, 1)]
    result = compare_runs(a, b)
    wait = result.differences[0]
    assert result.seeds == (0, 1, 2)
    assert wait.difference == pytest.approx(11)
    assert wait.n == 120
    assert "t-interval over 3 seeds" in wait.interval.method
    assert wait.interval.high - 11 == pytest.approx(4.302653 / np.sqrt(3))


@pytest.mark.parametrize(
    ("seeds_a", "seeds_b", "words"),
    [([0, 1], [0, 2], "seed 1, 2 was run on one side only"), ([0, 0], [0, 1], "both have seed 0")],
)
def test_seeds_without_a_partner_are_refused(write_run, seeds_a, seeds_b, words):
    a = [write_run(f"a{i}", jobs(), seed=seed) for i, seed in enumerate(seeds_a)]
    b = [write_run(f"b{i}", jobs(), seed=seed) for i, seed in enumerate(seeds_b)]
    with pytest.raises(RunError, match=words):
        compare_runs(a, b)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metrics": ["wait_time"]}, "did you mean 'wait_time_s'"),
        ({"level": 95}, "level"),
        ({"tau": 0}, "tau"),
    ],
)
def test_wrong_arguments_are_refused(write_run, options, words):
    folder = write_run("a", jobs())
    with pytest.raises(RunError, match=words):
        compare_runs(folder, folder, **options)


def test_runs_without_a_value_in_common_have_no_difference(write_run):
    nothing = {**jobs(), "start_time_s": [None] * 40}
    wait = compare_runs(write_run("a", jobs()), write_run("b", nothing)).differences[0]
    assert (wait.n, wait.difference, wait.interval.low, wait.without_value) == (0, None, None, 40)


def test_groups_are_compared_after_all_jobs_and_share_them_out(write_run):
    user = ["ann", "bob", "ann", "ann"] * 10
    a = write_run("a", jobs() | {"user": user})
    b = write_run("b", jobs(shift=10) | {"user": user})
    rows = compare_runs(a, b, metrics=["wait_time_s"], by="user").differences
    assert [(row.group, row.n) for row in rows] == [(None, 40), ("ann", 30), ("bob", 10)]
    assert all(row.difference == pytest.approx(10) for row in rows)
    shared = sum(row.mean_a * row.n for row in rows[1:]) / 40
    assert rows[0].mean_a == pytest.approx(shared)
    with pytest.raises(RunError, match="'usr' is no group of jobs"):
        compare_runs(a, b, by="usr")


def test_a_group_over_several_seeds_has_an_interval_of_its_own(write_run):
    sides = [
        [
            write_run(f"{side}{seed}", jobs(shift, seed=seed) | {"user": [1, 2] * 20}, seed=seed)
            for seed in range(3)
        ]
        for side, shift in (("a", 0), ("b", 5))
    ]
    rows = compare_runs(*sides, metrics=["wait_time_s"], by="user").differences
    assert [(row.group, row.n) for row in rows] == [(None, 120), ("1", 60), ("2", 60)]
    assert all(row.interval.low == pytest.approx(5) for row in rows)
