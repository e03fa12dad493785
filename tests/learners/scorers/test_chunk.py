"""Chunks: when their jobs are seen, what bounds their makespans, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pair_chunks import engine_run, workload_of

from simkit.errors import ScenarioError
from simkit.learners.scorers.chunk_bounds import lower_bound
from simkit.learners.scorers.pair_model import Chunk, chunks
from simkit.policies.cloudsimpy import CloudSimPy, hold_ticks
from simkit.workload import Workload

ONE = np.array([[4.0, 1.0]])
WIDE = np.full((1, 2), 1000.0)


@given(
    gaps=st.lists(st.sampled_from([0.0, 0.0, 0.25, 0.75, 1.0, 1.5, 2.0, 7.0]), max_size=12),
    begin_s=st.sampled_from([0.0, 100.0, 100.5]),
)
def test_jobs_are_seen_when_the_engine_starts_them_on_an_empty_cluster(gaps, begin_s):
    submits = np.cumsum([begin_s, *gaps]).tolist()
    load = workload_of([(time, [(1, 1, 1, 5), (1, 1, 1, 5)]) for time in submits])
    _, placed = engine_run(CloudSimPy(), load, WIDE)
    starts = {task: tick for tick, task, _ in placed}
    seen = Chunk.of(load, WIDE).seen.tolist()
    assert seen == [starts[task] for task in range(len(load.task_id))]
    assert seen == sorted(seen)


def test_columns():
    load = workload_of([(10, [(3, 0.1, 1, 2.25), (1, 4, 0, 1)]), (15.5, [(2, 1, 1, 1.5)])])
    chunk = Chunk.of(load, ONE)
    assert chunk.seen.tolist() == [1, 1, 6]
    assert chunk.hold.tolist() == [3, 2, 2]  # exactly a second holds two ticks
    assert chunk.run_s.tolist() == [2.25, 1, 1.5]
    assert chunk.request.tolist() == [[0.1, 1], [4, 0], [1, 1]]  # in the digits that were read
    assert (chunk.instances.tolist(), chunk.total_instances) == ([3, 1, 2], 6)


@pytest.mark.parametrize(
    ("jobs", "bound"),
    [
        ([], 0),
        # Seen at 1; runs for 5.
        ([(0, [(1, 1, 0.1, 5)])], 6),
        # Ten of two cores on four: five rounds of 3.
        ([(0, [(10, 2, 0.1, 3)])], 16),
        # Memory is scarcer: one at a time.
        ([(0, [(4, 1, 1, 3)])], 13),
        # The second job alone takes until 21 + 9, however early the first is done.
        ([(0, [(1, 1, 0.1, 5)]), (21, [(1, 1, 0.1, 9)])], 30),
        # Seen at 1 and 2; 2 + 8 of the second, but 1 + 4 + 8 of both.
        ([(0, [(1, 4, 0.1, 4)]), (1, [(2, 4, 0.1, 4)])], 13),
        # Seen together: both count from there.
        ([(0, [(1, 4, 0.1, 4), (2, 4, 0.1, 4)])], 13),
        # A resource that nobody asks for, and of which there is none in `NO_MEMORY`.
        ([(0, [(2, 4, 0, 3)])], 7),
    ],
)
def test_the_lower_bound_by_hand(jobs, bound):
    if not jobs:
        empty = workload_of([(0, [(1, 1, 0.1, 1)])]).take(np.arange(0))
        assert lower_bound(Chunk.of(empty, ONE)) == bound
        return
    load = workload_of(jobs)
    capacity = np.array([[4.0, 0.0]]) if not load.request[:, 1].any() else ONE
    assert lower_bound(Chunk.of(load, capacity)) == bound
    makespan, _ = engine_run(CloudSimPy("balance"), load, capacity)
    assert makespan == bound  # here, a schedule reaches it


BAG = st.tuples(
    st.integers(1, 6),
    st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]),
    st.sampled_from([0.0, 0.1, 0.2, 0.5]),
    st.sampled_from([1.0, 1.25, 2.0, 3.0, 20.0]),
)
JOBS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 6.0]), st.lists(BAG, min_size=1, max_size=3)),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize("rule", ["first-fit", "tetris", "sjf", "ljf", "random", "balance"])
def test_no_rule_is_better_than_the_lower_bound(rule):
    complete = []  # rounding can keep an instance from fitting

    @given(jobs=JOBS, machines=st.integers(1, 3))
    def check(jobs: list[Any], machines: int) -> None:
        times = np.cumsum([gap for gap, _ in jobs]).tolist()
        load = workload_of([(time, bags) for time, (_, bags) in zip(times, jobs, strict=True)])
        capacity = np.ones((machines, 2))
        makespan, placed = engine_run(CloudSimPy(rule), load, capacity)
        complete.append(placed.total() == load.instances.sum())
        assert not complete[-1] or lower_bound(Chunk.of(load, capacity)) <= makespan

    check()
    assert sum(complete) > len(complete) / 2


LOAD = workload_of([(0, [(2, 1, 0.1, 5)])])
REFUSED: dict[str, Callable[[], Workload]] = {
    "gang": lambda: LOAD.with_columns(gang=np.ones(1, bool)),
    "parents": lambda: workload_of([(0, [(1, 1, 0.1, 5), (1, 1, 0.1, 5)])]).with_columns(
        first_parent=np.array([0, 0, 1]), parent=np.array([0])
    ),
    "release": lambda: LOAD.with_columns(release_time_s=np.array([9.0])),
    "different run times": lambda: LOAD.with_columns(instance_run_time_s=np.array([4.0, 6.0])),
    "below 1 s": lambda: LOAD.with_columns(run_time_s=np.array([0.5])),
    "any machine": lambda: workload_of([(0, [(1, 1, 0.1, 5), (1, 1, 1.5, 5)])]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    with pytest.raises(ScenarioError, match=f"^workload: .*{what}"):
        Chunk.of(REFUSED[what](), ONE)


def test_a_gang_of_one_is_a_bag():
    single = workload_of([(0, [(1, 1, 0.1, 5)])]).with_columns(gang=np.ones(1, bool))
    assert Chunk.of(single, ONE).total_instances == 1


def test_an_instance_must_fit_as_a_whole_on_one_machine():
    halves = np.array([[4.0, 0.5], [1.0, 2.0]])
    with pytest.raises(ScenarioError, match="more than any machine has"):
        Chunk.of(workload_of([(0, [(1, 4, 1, 5)])]), halves)


def test_chunks_of_some_jobs_each_begin_at_0():
    load = workload_of([(time, [(job + 1, 1, 0.1, 5)]) for job, time in enumerate([0, 3, 7, 8, 9])])
    found = list(chunks(load, ONE, jobs=2))
    assert [each.seen.tolist() for each in found] == [[1, 3], [1, 2], [1]]
    assert [each.instances.tolist() for each in found] == [[1, 2], [3, 4], [5]]


@given(seed=st.integers(0, 2**32), spread=st.sampled_from([0.0, 0.5, 2.0]))
def test_varied_chunks_still_fit(seed, spread):
    load = workload_of([(0, [(3, 0.5, 0.9, 2.25), (1, 4, 0.2, 9)]), (5, [(2, 1, 0.5, 1.5)])])
    capacity = np.array([[1.0, 4.0], [4.0, 1.0]])
    chunk = Chunk.of(load, capacity)
    varied = chunk.varied(np.random.default_rng(seed), spread, spread)
    assert (varied.request[:, None] <= capacity).all(axis=2).any(axis=1).all()
    assert (varied.run_s >= 1).all()
    assert varied.hold.tolist() == hold_ticks(varied.run_s).tolist()
    for k in range(2):  # one factor for a resource, but for what is cut to what a machine has
        uncut = varied.request[:, k] < capacity[[0, 1, 0], k]
        factors = (varied.request / chunk.request)[uncut, k]
        assert factors == pytest.approx(factors[:1].repeat(len(factors)))
    if not spread:
        assert varied.request.tolist() == chunk.request.tolist()
        assert varied.run_s.tolist() == chunk.run_s.tolist()
    unchanged = ("seen", "instances", "job", "capacity")
    assert all(getattr(varied, name) is getattr(chunk, name) for name in unchanged)
