"""The kept profile shows the same as one made anew, whatever happens between two decisions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import one_task_jobs

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policy import Cancel, Kill, Place, Suspend, WakeAt
from simkit.policy.kept_profile import KeptProfile, News
from simkit.workload.cluster import Cluster, Maintenance

NOTHING = type("Nothing", (), {"write": lambda self, table, rows: None})()
DIP = Maintenance(6, 11, 0, (2, 1), "requeue")
POOL = Cluster.pool({"cpu": 4.0, "mem": 4.0}, maintenance=(DIP,))
MACHINES = Cluster(
    ("cpu", "mem"), ("a", "b"), np.array([[3.0, 3.0], [2.0, 4.0]]), maintenance=(DIP,)
)
JOBS = st.lists(
    # gap, run time, what the estimate is above it, cpu
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(-2, 3), st.integers(1, 2)),
    min_size=1, max_size=14,
)  # fmt: skip


def simulation(rows, cluster):
    gaps, run, more, cpu = np.array(rows, float).T
    requested = np.maximum(run + more, 1.0)
    jobs = one_task_jobs(np.cumsum(gaps), run, np.column_stack((cpu, cpu)), requested=requested)
    return Simulation(jobs, cluster, Recorder(jobs, jobs.resources, NOTHING))


def machine_by_machine(profile, times):
    """Return what is free on each machine at some times."""
    free = np.array(profile._free)
    free = free.T[:, None, :] if free.ndim == 2 else free  # (steps, M, R)
    return free[np.maximum(np.searchsorted(profile._times, times, side="right") - 1, 0)]


def check_against_one_made_anew(plan, state):
    anew = state.profile()
    other = KeptProfile(overdue_ends=plan._overdue_ends)
    other.make(state)
    anew = other.profile
    for holds in plan.held.values():
        for hold in holds:
            anew.take(hold.on, hold.task.request, max(hold.start_s, state.now), hold.end_s)
    times = sorted({*plan.profile._times, *anew._times})
    mine, theirs = (machine_by_machine(each, times).tolist() for each in (plan.profile, anew))
    assert mine == theirs


@pytest.mark.parametrize("cluster", [POOL, MACHINES], ids=["pool", "machines"])
@given(JOBS, st.randoms(use_true_random=False), st.booleans(), st.booleans())
def test_the_kept_profile_is_the_one_made_anew(cluster, rows, random, overdue_ends, meddles):
    """Estimates are wrong, capacity falls, others kill, suspend, cancel and place: it follows."""
    sim, plan = simulation(rows, cluster), KeptProfile(overdue_ends=overdue_ends)
    for number, state in enumerate(sim.decisions()):
        if number > 150:
            break
        held = len(plan.held)
        news = plan.follow(state)
        assert len(plan.held) == (0 if news is News.ANEW else held)
        if state.queue:  # or else it may know an older forecast
            check_against_one_made_anew(plan, state)
        act(sim, plan, state, random)
        check_against_one_made_anew(plan, state)
        if meddles:
            meddle(sim, state, random)
        sim.apply(WakeAt(state.now + 1))


def act(sim, plan, state, random):
    """Start, reserve or hold what waits at its earliest place; start or let go what is held."""
    for hold in plan.due(state.now):
        if hold.task.waiting and random.random() < 0.5:
            plan.start(hold)
            sim.apply(Place(hold.task, hold.on))
        else:
            plan.let_go(hold.task)
    for task in state.queue.tasks.copy():
        if task in plan.held or (found := plan.profile.earliest(task)) is None:
            continue
        start, on = found
        if start > state.now and random.random() < 0.5:
            plan.hold(task, start, on)
        elif start > state.now or random.random() < 0.7:
            later = start > state.now
            plan.take(task, start, on, reserved=later)
            sim.apply(Place(task, on, start if later else None))


def meddle(sim, state, random):
    """Do what the plan knows nothing of."""
    if state.running and random.random() < 0.1:
        sim.apply(Suspend(next(iter(state.running)), keep_work=random.random() < 0.5))
    if state.reservations and random.random() < 0.3:
        task = next(iter(state.reservations))
        sim.apply(Cancel(task) if random.random() < 0.5 else Kill(task))
    if state.queue and random.random() < 0.2:
        sim.apply(Kill(state.queue[0]))
    if state.queue and random.random() < 0.2 and (on := state.fit(state.queue[-1])):
        sim.apply(Place(state.queue[-1], on))


def test_nothing_is_made_anew_while_all_goes_as_planned():
    rng = np.random.default_rng(3)
    rows = [(1, r, 0, *rng.integers(1, 3, 1)) for r in rng.integers(1, 6, 40)]
    sim, plan, news = simulation(rows, POOL), KeptProfile(), []
    for state in sim.decisions():
        news.append(plan.follow(state))
        for task in state.queue.tasks.copy():
            if task not in plan.held:
                plan.hold(task, *plan.profile.earliest(task))
        for hold in plan.due(state.now):
            plan.start(hold)
            sim.apply(Place(hold.task, hold.on))
        if plan.held:
            sim.apply(WakeAt(plan.next_start(state.now)))
    assert set(news[1:]) == {News.NONE}
    assert news[0] is News.ANEW
    assert sim.jobs_ended == 40


def test_what_was_reserved_for_a_task_that_is_killed_is_free_at_once():
    sim = simulation([(0, 20, 0, 2), (0, 20, 0, 2), (0, 20, 0, 2), (1, 1, 0, 1)], POOL)
    plan = KeptProfile()
    decisions = sim.decisions()
    state = next(decisions)
    plan.follow(state)
    for task in state.queue.tasks.copy():
        start, on = plan.profile.earliest(task)
        plan.take(task, start, on, reserved=start > 0)
        sim.apply(Place(task, on, start or None))
    reserved = [*state.reservations][-1]
    sim.apply(Kill(reserved))
    state = next(decisions)
    assert plan.follow(state) is News.FREED
    check_against_one_made_anew(plan, state)
