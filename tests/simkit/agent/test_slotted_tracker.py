"""The slotted tracker shows the same as a fresh view of the whole simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import one_task_jobs

from simkit.agent.slotted import Slotted, SlottedUnits
from simkit.agent.slotted_tracker import SlottedTracker
from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.errors import ScenarioError
from simkit.policy import Cancel, Kill, Place, Suspend, SystemInfo
from simkit.policy.estimates import Actual
from simkit.policy.task import Task
from simkit.rules import AdmissionRule, Rules
from simkit.workload.cluster import Cluster, Maintenance

SMALL = Slotted(capacity=(4, 3), slots=3, horizon=8, max_length=6, backlog=4, memory=3)
NOTHING = type("Nothing", (), {"write": lambda self, table, rows: None})()


def workload(rows):
    """Return jobs of (submission, run time, estimate, cpu, mem)."""
    submit, run, estimate, cpu, mem = np.array(rows, float).reshape(-1, 5).T
    return one_task_jobs(submit, run, np.column_stack((cpu, mem)), requested=estimate)


def simulation(rows, model=SMALL, *, predictor=None, maintenance=(), refill="at_once"):
    load = workload(rows)
    amounts = (c * u for c, u in zip(model.capacity, model.unit or (1.0, 1.0), strict=True))
    cluster = Cluster.pool(dict(zip(load.resources, amounts, strict=True)), maintenance=maintenance)
    rules = Rules(
        scheduling={"step": model.step_s},
        admission=AdmissionRule(slots=model.slots, backlog=model.backlog, refill=refill),
    )
    recorder = Recorder(load, load.resources, NOTHING)
    return Simulation(load, cluster, recorder, rules=rules, predictor=predictor)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
    st.sampled_from(["at_once", "next_decision"]),
)
def test_counts_the_steps_since_any_arrival(gaps, random, refill):
    submit = np.cumsum(gaps)
    rows = [(s, random.randint(1, 5), 5, random.randint(1, 4), 1) for s in submit]
    model = replace(SMALL, slots=2, backlog=60)
    run, tracker = simulation(rows, model, refill=refill), SlottedTracker(model)
    tracker.reset(run.info)
    for state in run.decisions():
        tracker.update(state)
        since = min(state.now - submit[submit <= state.now][-1], model.memory)
        assert (state.now, int(tracker.view().since_arrival)) == (state.now, since)
        while (place := tracker.place(random.randrange(2))) is not None:
            run.apply(place)
            tracker.update(state)
        if state.now > 200:
            break


def anew(tracker, state):
    """Return what a tracker sees that has never seen anything of the run before."""
    other = SlottedTracker(tracker.model)
    other.reset(state.info)
    other.update(state)
    return other


jobs = st.lists(
    # gap, run time, what the estimate is above it, cpu, mem
    st.tuples(
        st.integers(0, 3), st.integers(0, 9), st.integers(-2, 2), st.integers(0, 4),
        st.integers(0, 3),
    ),
    min_size=1, max_size=14,
)  # fmt: skip
DIP = Maintenance(6, 11, 0, (2, 1), "requeue")


@given(
    jobs,
    st.randoms(use_true_random=False),
    st.sampled_from([(), (DIP,)]),
    st.sampled_from(["at_once", "next_decision"]),
    st.booleans(),
)
def test_the_kept_plan_is_the_one_made_anew(rows, random, maintenance, refill, meddles):
    """Estimates are wrong, capacity falls, others kill, suspend and place: it follows."""
    submit = np.cumsum([row[0] for row in rows])
    table = [
        (s, run, max(run + off, 0), *rest)
        for s, (_, run, off, *rest) in zip(submit, rows, strict=True)
    ]
    sim, tracker = simulation(table, maintenance=maintenance, refill=refill), SlottedTracker(SMALL)
    tracker.reset(sim.info)
    for number, state in enumerate(sim.decisions()):
        if number > 150:
            break
        tracker.update(state)
        check_against_one_made_anew(tracker, state)
        while (place := tracker.place(random.randrange(SMALL.slots))) is not None:
            sim.apply(place)
            tracker.update(state)
            check_against_one_made_anew(tracker, state)
        if meddles:
            meddle(sim, state, random)
            if random.random() < 0.5:
                tracker.update(state)
                check_against_one_made_anew(tracker, state)


def check_against_one_made_anew(tracker, state):
    other = anew(tracker, state)
    assert tracker.view().occupied.tolist() == other.view().occupied.tolist()
    assert int(tracker.view().backlog) == int(other.view().backlog)
    mine, theirs = (
        {t.index: tr.earliest(s) for s in range(SMALL.slots) if (t := tr.task(s)) is not None}
        for tr in (tracker, other)
    )
    assert {t: e for t, e in mine.items() if t in theirs} == {
        t: e for t, e in theirs.items() if t in mine
    }
    units = SlottedUnits(SMALL)
    for slot in range(SMALL.slots):
        task, view = tracker.task(slot), tracker.view()
        held = (0, (0, 0)) if task is None else (units.length(task), units.size(task))
        assert (view.length[slot], tuple(view.size[slot].tolist())) == held


def meddle(sim, state, random):
    """Do what the tracker knows nothing of."""
    if state.running and random.random() < 0.1:
        sim.apply(Suspend(next(iter(state.running)), keep_work=random.random() < 0.5))
    if state.reservations and random.random() < 0.2:
        sim.apply(Cancel(next(iter(state.reservations))))
    if state.queue and random.random() < 0.1:
        sim.apply(Kill(state.queue[0]))
    if state.queue and random.random() < 0.2 and (on := state.fit(state.queue[-1])):
        sim.apply(Place(state.queue[-1], on))


def test_nothing_is_made_anew_while_all_goes_as_planned(monkeypatch):
    rng = np.random.default_rng(3)
    rows = [(s, r, r, *rng.integers(0, 4, 2)) for s, r in enumerate(rng.integers(1, 6, 60))]
    run, tracker, made = simulation(rows, predictor=Actual()), SlottedTracker(SMALL), []
    monkeypatch.setattr(
        tracker._plan,
        "_make",
        lambda state, f=tracker._plan._make: (made.append(state.now), f(state)),
    )
    tracker.reset(run.info)
    for state in run.decisions():
        tracker.update(state)
        while (place := tracker.place(int(rng.integers(SMALL.slots)))) is not None:
            run.apply(place)
            tracker.update(state)
    assert made == [0.0]
    assert run.jobs_ended == 60


def test_amounts_and_times_are_rounded_up_to_units_and_steps():
    model = Slotted(capacity=(5, 5), step_s=10.0, unit=(0.2, 2.0))
    units = SlottedUnits(model)
    cases = [
        # estimate, cpu, mem -> steps, units
        (10.0, 0.2, 2.0, 1, (1, 1)),
        (10.5, 0.6, 2.5, 2, (3, 2)),
        (0.0, 0.0, 0.0, 1, (0, 0)),
    ]
    for estimate, cpu, mem, length, size in cases:
        task = Task(0, 0, 0.0, (cpu, mem), estimate_s=estimate)
        assert (units.length(task), units.size(task)) == (length, size)


def test_a_bag_is_placed_with_all_instances_that_are_left():
    task = Task(0, 0, 0.0, (1.0, 0.5), instances=4, gang=False, estimate_s=1.0)
    units = SlottedUnits(Slotted())
    assert units.size(task) == (4, 2)
    task.remaining = 3
    assert units.size(task) == (3, 2)


REFUSED = [
    (Cluster.pool({"cpu": 4.0}), "resources"),
    (Cluster.pool({"cpu": 4.0, "mem": 5.0}), "5 units of mem"),
    (
        Cluster(("cpu", "mem"), ("a", "b"), np.full((2, 2), 4.0)),
        "2 machines; a slotted model needs one",
    ),
]


@pytest.mark.parametrize(("cluster", "text"), REFUSED)
def test_refuses_a_cluster_that_is_not_its_pool(cluster, text):
    capacity = cluster.capacity.copy()
    info = SystemInfo(cluster.resources, cluster.machine_names, capacity, cluster.partitions)
    with pytest.raises(ScenarioError, match=text):
        SlottedTracker(SMALL).reset(info)
