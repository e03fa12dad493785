"""Releases: a job is not seen before its release time, and before the jobs that precede it ended."""

from __future__ import annotations

import numpy as np
from engine_runs import a_gang, greedy, make_jobs, rigid, simulate
from hypothesis import given
from hypothesis import strategies as st

from simkit.policy import Kill, Reject
from simkit.rules import AdmissionRule, Rules

TIMES = "job_id submit_time_s release_time_s start_time_s wait_time_s"


def with_links(load, **links):
    """Return the workload with ``j3=[(row, think), …]``: the jobs that precede job 3."""
    rows = [links.get(f"j{job}", []) for job in range(len(load))]
    flat = [link for of_job in rows for link in of_job]
    return load.with_columns(
        first_predecessor=np.cumsum([0, *map(len, rows)]),
        predecessor=np.array([row for row, _ in flat], dtype=np.int64),
        think_time_s=np.array([think for _, think in flat], dtype=float),
    )


def released_at(load, *release_time_s):
    return load.with_columns(release_time_s=np.array(release_time_s, dtype=float))


def test_a_job_is_not_seen_before_its_release_time():
    seen = []

    def schedule(state):
        seen.append((state.now, state.submitted, [task.index for task in state.queue]))
        yield from greedy(state)

    load = released_at(rigid((0, 9, 1), (1, 2, 1), (1, 2, 1)), 0, 20, 0.5)
    run = simulate(schedule, load, 9)
    assert run.rows("jobs", TIMES, by="job_id") == [
        (0, 0, 0, 0, 0), (1, 1, 20, 20, 19), (2, 1, 1, 1, 0),
    ]  # fmt: skip
    assert seen == [(0, 1, [0]), (1, 3, [2]), (3, 3, []), (9, 3, []), (20, 3, [1]), (22, 3, [])]
    assert run.rows("tasks", "ready_time_s", by="job_id") == [(0,), (20,), (1,)]


def test_a_job_whose_predecessor_ends_in_no_time_comes_in_a_further_round():
    seen = []

    def schedule(state):
        seen.append((state.now, [task.index for task in state.arrived]))
        yield from greedy(state)

    simulate(schedule, with_links(rigid((3, 0, 1), (3, 0, 1)), j1=[(0, 0)]), 9)
    assert seen == [(3, [0]), (3, [1]), (3, [])]


# ---- however a predecessor ends ----------------------------------------------------------------


def test_a_killed_predecessor_has_ended():
    def schedule(state):
        if state.now == 3:
            yield from (Kill(a.task) for a in state.running if a.task.index == 0)
        yield from greedy(state)

    load = with_links(rigid((0, 50, 1), (0, 1, 1), (3, 1, 1)), j1=[(0, 10)])
    assert simulate(schedule, load, 9).starts() == {0: 0, 1: 13, 2: 3}
    walltime = with_links(rigid((0, 50, 1, 20), (0, 1, 1)), j1=[(0, 10)])
    rules = Rules(walltime="kill")
    assert simulate(greedy, walltime, 9, rules=rules).starts() == {0: 0, 1: 30}


def test_a_predecessor_that_can_never_run_has_ended_at_its_submission():
    load = with_links(rigid((0, 1, 99), (0, 1, 1)), j1=[(0, 5)])
    run = simulate(greedy, load, 4)
    assert run.rows("jobs", "release_time_s start_time_s status", by="job_id") == [
        (None, None, "rejected"), (5, 5, "finished"),
    ]  # fmt: skip


def test_a_predecessor_that_is_turned_away_has_ended_then():
    def turn_away(state):
        if state.now >= 4:
            yield from (Reject(task, "no") for task in state.queue if task.index == 0)
        yield from (place for place in greedy(state) if place.task.index)

    load = with_links(rigid((0, 1, 1), (0, 1, 1), (4, 1, 1)), j1=[(0, 2)])
    run = simulate(turn_away, load, 9)
    assert run.rows("jobs", "status start_time_s", by="job_id") == [
        ("rejected", None), ("finished", 6), ("finished", 4),
    ]  # fmt: skip


def test_a_job_with_parents_of_its_own_waits_for_both():
    load = make_jobs((0, a_gang(1, 5)), (0, a_gang(1, 2), a_gang(1, 2)))
    load = with_links(load, j1=[(0, 1)])
    load = load.with_columns(first_parent=np.array([0, 0, 0, 1]), parent=np.array([1]))
    run = simulate(greedy, load, 9)
    assert run.rows("tasks", "task_id ready_time_s start_time_s", by="task_id") == [
        (0, 0, 0), (1, 6, 6), (2, 8, 8),
    ]  # fmt: skip


def test_a_job_that_is_never_released_is_waiting_at_the_end():
    def never(state):
        yield from ()

    load = with_links(rigid((0, 1, 1), (0, 1, 1), (5, 1, 1)), j1=[(0, 0)], j2=[(1, 0)])
    run = simulate(never, load, 9)
    assert run.rows("jobs", "job_id status release_time_s", by="job_id") == [
        (0, "waiting", 0), (1, "waiting", None), (2, "waiting", None),
    ]  # fmt: skip
    assert run.rows("tasks", "ready_time_s", by="job_id") == [(0,), (None,), (None,)]


# ---- with what else holds jobs back ------------------------------------------------------------


def test_the_backlog_is_full_for_a_job_at_its_release():
    rules = Rules(admission=AdmissionRule(slots=1, backlog=0))
    load = released_at(rigid((0, 9, 4), (0, 1, 1), (1, 1, 4)), 0, 5, 0)
    run = simulate(greedy, load, 4, rules=rules)
    assert run.rows("jobs", "release_time_s status reason", by="job_id") == [
        (0, "finished", ""), (5, "rejected", "the backlog is full"), (1, "finished", ""),
    ]  # fmt: skip
    free = released_at(rigid((0, 9, 4), (0, 1, 1)), 0, 5)
    assert simulate(greedy, free, 4, rules=rules).starts() == {0: 0, 1: 9}


# ---- against a count by hand -------------------------------------------------------------------


@st.composite
def workloads(draw):
    """Draw jobs in order of submission, their release times, and links to any earlier ones."""
    small = st.integers(0, 20)
    size = draw(st.integers(1, 12))
    submit = sorted(draw(st.lists(small, min_size=size, max_size=size)))
    rows = [(time, draw(small), draw(st.integers(1, 4))) for time in submit]
    release = [draw(st.integers(0, 60)) for _ in rows]
    links = {
        f"j{job}": [
            (row, draw(small)) for row in draw(st.sets(st.integers(0, job - 1), max_size=3))
        ]
        for job in range(1, size)
    }
    return rows, release, links


@given(workloads(), st.booleans())
def test_without_contention_every_job_starts_at_its_release(drawn, ample):
    rows, release, links = drawn
    load = released_at(with_links(rigid(*rows), **links), *release)
    run = simulate(greedy, load, 99 if ample else 4)
    jobs = {row[0]: row[1:] for row in run.rows("jobs", "job_id start_time_s end_time_s")}
    released = dict(enumerate(load.submit_time_s.tolist()))
    if "release_time_s" in run["jobs"].columns:
        released = dict(run.rows("jobs", "job_id release_time_s"))
    for job, (submit, _, _) in enumerate(rows):
        ends = [jobs[row][1] + think for row, think in links.get(f"j{job}", [])]
        assert released[job] == max(submit, release[job], *ends)
        assert jobs[job][0] == released[job] if ample else jobs[job][0] >= released[job]


def test_a_predecessor_may_be_submitted_later_or_have_ended_before():
    load = with_links(rigid((0, 1, 1), (0, 1, 1), (30, 1, 1)), j0=[(1, 0)], j2=[(1, 40), (0, 1)])
    assert simulate(greedy, load, 9).starts() == {0: 1, 1: 0, 2: 41}
    later = with_links(rigid((0, 1, 1), (7, 1, 1)), j0=[(1, 0)])
    assert simulate(greedy, later, 9).starts() == {0: 8, 1: 7}
