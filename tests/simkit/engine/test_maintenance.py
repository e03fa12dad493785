"""Maintenance: windows in which capacity is absent, and what happens to the tasks on it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from engine_runs import a_gang, greedy, make_jobs, pool_away, rigid, simulate
from hypothesis import given
from hypothesis import strategies as st

from simkit.errors import ScenarioError
from simkit.policies.conservative import ConservativePolicy
from simkit.policies.easy import Easy
from simkit.policies.fitness import FirstFit
from simkit.policies.orderings import FCFS
from simkit.policies.ready_pool import ReadyPoolPolicy
from simkit.policy import Place, Resume
from simkit.policy.fitness import FitnessPolicy
from simkit.policy.ordered import OrderedPolicy
from simkit.workload.cluster import CapacityStep, Cluster, Maintenance

PIECES = "task_id start_time_s end_time_s outcome"


def resuming(greedy):
    def schedule(state):
        for allocation in state.suspended:
            if state.free[0, 0] >= allocation.held[0]:
                yield Resume(allocation)
        yield from greedy(state)

    return schedule


def test_the_youngest_go_first_and_only_as_many_as_must():
    load = rigid((0, 10, 1), (1, 10, 1), (2, 10, 1), (3, 10, 1))
    run = simulate(greedy, load, pool_away((5, 8, 2, "requeue")))
    assert run.rows("allocations", PIECES)[:2] == [(3, 3, 5, "lost"), (2, 2, 5, "lost")]
    assert run.starts() == {0: 0, 1: 1, 2: 2, 3: 3}
    assert run.rows("jobs", "job_id end_time_s lost_time_s attempts", by="job_id") == [
        (0, 10, 0, 1), (1, 11, 0, 1), (2, 18, 3, 2), (3, 18, 2, 2),
    ]  # fmt: skip


def test_only_what_needs_the_capacity_that_goes_is_taken_off():
    # (cpu, mem): the youngest task holds no cpu, and cpu is what goes
    cluster = Cluster.pool(
        {"cpu": 4, "mem": 4}, maintenance=(Maintenance(5, 20, 0, (2, 0), "requeue"),)
    )
    load = make_jobs(
        (0, a_gang(1, 10, request=(3, 0))), (1, a_gang(1, 10, request=(0, 3))),
        resources=("cpu", "mem"),
    )  # fmt: skip
    run = simulate(greedy, load, cluster)
    assert run.rows("allocations", PIECES) == [
        (0, 0, 5, "lost"), (1, 1, 11, "finished"), (0, 20, 30, "finished"),
    ]  # fmt: skip


def test_what_is_on_other_machines_stays():
    # Job 0 is on b alone; job 1 on a and b: it must go whole, and comes back on what is free.
    cluster = Cluster(
        ("processors",), ("a", "b"), np.array([[2.0], [3.0]]),
        maintenance=(Maintenance(5, 20, 0, (2.0,), "requeue"),),
    )  # fmt: skip

    def schedule(state):
        for task in state.queue:
            if task.index == 0:
                yield Place(task, ((1, 2),))
            elif on := state.fit(task):
                yield Place(task, on)

    run = simulate(schedule, rigid((0, 9, 2), (1, 9, 3)), cluster)
    assert run.rows("allocations", "task_id machine_id count start_time_s end_time_s outcome") == [
        (1, 0, 2, 1, 5, "lost"), (1, 1, 1, 1, 5, "lost"), (0, 1, 2, 0, 9, "finished"),
        (1, 1, 3, 9, 18, "finished"),
    ]  # fmt: skip


def test_capacity_steps_are_seen_ahead():
    seen = []

    def schedule(state):
        profile = state.profile()
        free = [profile.total_free(t)[0] for t in (state.now, 4.0, 5.0, 7.9, 8.0, 1e9)]
        seen.append((state.now, list(state.steps), state.constrained, free))
        yield from greedy(state)

    simulate(schedule, rigid((0, 1, 1)), pool_away((5, 8, 3, "drain")))
    down, up = CapacityStep(5, 0, (-3,)), CapacityStep(8, 0, (3,))
    assert seen == [
        (0, [down, up], True, [4, 4, 1, 1, 4, 4]),
        (1, [down, up], True, [4, 4, 1, 1, 4, 4]),
        (5, [up], True, [1, 1, 1, 1, 4, 4]),
        (8, [], False, [4, 4, 4, 4, 4, 4]),
    ]


# ---- windows that meet --------------------------------------------------------------------------


@pytest.mark.parametrize("running", ["requeue", "suspend"])
def test_windows_that_touch_take_nothing_twice(running):
    # At 10 one window gives two processors back and the next takes two: a task that has run
    # beside the first runs beside the second.
    cluster = pool_away((5, 10, 2, running), (10, 15, 2, running))
    run = simulate(resuming(greedy), rigid((0, 12, 2)), cluster)
    assert run.rows("allocations", PIECES) == [(0, 0, 12, "finished")]
    assert run.rows("timeline", "time_s capacity_processors") == [
        (0, 4), (5, 2), (10, 2), (12, 2), (15, 4),
    ]  # fmt: skip


def test_the_end_of_a_window_takes_nobody_off():
    # The drained job may run on, though another window, which would requeue, ends meanwhile.
    cluster = pool_away((2, 20, 3, "drain"), (1, 6, 1, "requeue"))
    run = simulate(greedy, rigid((0, 10, 3)), cluster)
    assert run.rows("allocations", PIECES) == [(0, 0, 10, "finished")]


def test_equal_steps_of_different_windows():
    # Both take two processors at 5; one drains, the other suspends. Each does so once.
    cluster = pool_away((5, 20, 2, "drain"), (5, 30, 2, "suspend"))
    run = simulate(greedy, rigid((0, 10, 4)), cluster)
    kinds = [json.loads(detail)["running"] for _, kind, detail in run.rows("events", "time_s kind detail")
             if kind == "capacity"]  # fmt: skip
    assert sorted(kinds[:2]) == ["drain", "suspend"]
    assert kinds[2:] == ["drain", "suspend"]


@pytest.mark.parametrize(
    ("windows", "what"),
    [
        ([(5, 9, 0, (5.0,))], "which has"),  # more than there is
        ([(5, 9, 0, (3.0,)), (8, 12, 0, (2.0,))], "together"),  # more than there is, from 8 to 9
        ([(9, 9, 0, (1.0,))], "end"),
        ([(9, 5, 0, (1.0,))], "end"),
        ([(5, float("inf"), 0, (1.0,))], "finite"),
        ([(5, 9, 1, (1.0,))], "machine 1"),
        ([(5, 9, 0, (-1.0,))], "at least 0"),
        ([(5, 9, 0, (1.0, 1.0))], "resources"),
    ],
)
def test_impossible_windows(windows, what):
    with pytest.raises(ScenarioError, match=what):
        Cluster.pool({"processors": 4}, maintenance=tuple(Maintenance(*row) for row in windows))


# ---- policies that plan around windows ------------------------------------------------------------


@pytest.mark.parametrize("backfill", [None, Easy])
@pytest.mark.parametrize("machines", [1, 2])
def test_nothing_is_started_into_a_window(backfill, machines):
    # Three of four processors go from 10 to 20. Job 0 would run into it and is blocked; with EASY,
    # job 1 (ends at 10, just so) and job 3 (small enough for what stays) overtake it, job 2 not.
    load = rigid((1, 12, 4), (1, 9, 2), (1, 10, 2), (1, 50, 1))
    if machines == 1:
        cluster = pool_away((10, 20, 3, "drain"))
    else:
        cluster = Cluster(
            ("processors",), ("a", "b"), np.array([[3.0], [1.0]]),
            maintenance=(Maintenance(10, 20, 0, (3.0,)),),
        )  # fmt: skip
    run = simulate(OrderedPolicy(FCFS(), backfill and backfill()), load, cluster)
    if backfill is None:
        assert run.starts() == {0: 20, 1: 32, 2: 32, 3: 41}
    else:
        # job 3 would delay job 0, which needs all four at 20
        assert run.starts() == {0: 20, 1: 1, 2: 32, 3: 32}


def test_suspended_gangs_are_resumed_on_other_machines():
    # machine 0 goes at 2 for good; what ran there goes on as soon as machine 1 is free
    cluster = Cluster(
        ("processors",), ("a", "b"), np.array([[4.0], [4.0]]),
        maintenance=(Maintenance(2, 100, 0, (4.0,), "suspend"),),
    )  # fmt: skip
    load = rigid((0, 10, 4, 1), (0, 5, 4, 5))
    run = simulate(OrderedPolicy(FCFS()), load, cluster)
    assert run.rows("allocations", "job_id machine_id start_time_s end_time_s outcome") == [
        (0, 0, 0, 2, "suspended"), (1, 1, 0, 5, "finished"), (0, 1, 5, 13, "finished"),
    ]  # fmt: skip


# ---- windows that recur without end ---------------------------------------------------------------


def recurring(*windows: tuple[float, float, float, float], processors: float = 4) -> Cluster:
    """Return a pool with windows of (start, duration, period, amount)."""
    return Cluster.pool(
        {"processors": processors},
        maintenance=tuple(
            Maintenance(start, start + length, 0, (amount,), "requeue", every)
            for start, length, every, amount in windows
        ),
    )


POLICIES = {
    "fcfs": lambda: OrderedPolicy(FCFS()),
    "easy": lambda: OrderedPolicy(FCFS(), Easy()),
    "conservative": lambda: ConservativePolicy(FCFS()),
    "ready-pool": lambda: ReadyPoolPolicy(FCFS()),
    "first-fit": lambda: FitnessPolicy(FirstFit()),
}


@pytest.mark.parametrize("name", POLICIES)
def test_one_start_between_two_windows_for_as_long_as_it_takes(name):
    """Each job expects a whole gap of 6 s; the twentieth comes 190 s after the first."""
    run = simulate(POLICIES[name](), rigid(*[(0, 1, 4, 6)] * 20), recurring((6, 4, 10, 4)))
    assert list(run.starts().values()) == [10 * number for number in range(20)]
    assert run["events"].filter(kind="capacity")["time_s"].max() == 190.0  # it ends with the jobs


@pytest.mark.parametrize("name", POLICIES)
def test_what_no_gap_is_long_enough_for_ends_the_run(name):
    jobs = rigid((0, 1, 4, 7), (3, 1, 2, 2), (25, 1, 1, 100))
    run = simulate(POLICIES[name](), jobs, recurring((6, 4, 10, 3)))
    assert run.rows("jobs", "job_id status", by="job_id")[0] == (0, "waiting")
    last = run["timeline"]["time_s"].max()
    assert last <= 26 + 2 * 10  # a cycle of the windows after the last job ended


def test_two_periods_make_a_cycle_of_both():
    """Gaps of 5, 1, 5, 1, … s: a job of 5 s is placed in the next long one, of 6 s in none."""
    windows = ((5, 1, 12, 4), (7, 5, 12, 4), (0, 0.5, 5, 0))
    run = simulate(POLICIES["conservative"](), rigid((1, 5, 4), (2, 6, 4)), recurring(*windows))
    assert run.starts() == {0: 12, 1: None}


def test_steps_that_recur_are_seen_as_far_as_asked():
    seen = []

    def schedule(state):
        times = [step.time_s for step in state.steps]
        further = [step.time_s for step in state.steps_through(state.now + 50)]
        free = [state.profile().total_free(t)[0] for t in (9.9, 25.0, 1007.0)]
        seen.append((state.now, times, len(further), free))
        yield from greedy(state)

    simulate(schedule, rigid((0, 1, 1)), recurring((6, 4, 10, 3)))
    assert seen == [(now, [6, 10, 16, 20], 10, [1, 4, 1]) for now in (0, 1)]


class Watching:
    """Passes a policy on and notes the capacity at every decision."""

    def __init__(self, policy):
        self.policy, self.seen = policy, []

    def reset(self, info, rng):
        self.policy.reset(info, rng)

    def schedule(self, state):
        self.seen.append((state.now, state.capacity[0, 0]))
        yield from self.policy.schedule(state)


window_rows = st.tuples(
    st.integers(0, 20), st.integers(1, 6), st.integers(6, 15), st.integers(1, 2)
)  # fmt: skip
job_rows = st.tuples(
    st.integers(0, 40), st.integers(1, 8), st.integers(1, 4), st.integers(0, 6)
)  # fmt: skip


@given(
    windows=st.lists(window_rows, min_size=1, max_size=2),
    rows=st.lists(job_rows, min_size=1, max_size=12),
    name=st.sampled_from(sorted(POLICIES)),
)
def test_the_capacity_at_each_start_is_what_the_windows_leave(windows, rows, name):
    rows = sorted((submit, run, size, run + more) for submit, run, size, more in rows)
    policy = Watching(POLICIES[name]())
    run = simulate(policy, rigid(*rows), recurring(*windows))

    def left(now):
        return 4 - sum(
            amount
            for start, length, every, amount in windows
            if now >= start and (now - start) % every < length
        )

    assert [capacity for _, capacity in policy.seen] == [left(now) for now, _ in policy.seen]
    held = run.rows("allocations", "start_time_s end_time_s count")
    for instant, _, _ in held:
        running = sum(count for start, end, count in held if start <= instant < end)
        assert running <= left(instant)
    assert not run["jobs"].filter(status="running").height
    fits = {
        row for row, (_, _, size, _) in enumerate(rows) if size <= 4 - sum(w[3] for w in windows)
    }
    waiting = set(run["jobs"].filter(status="waiting")["job_id"])
    assert name == "fcfs" or not waiting & fits  # what fits beside all windows is never left
