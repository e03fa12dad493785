"""Burst classes in lock-step: the same as in the simulation, with the paper's rewards and rules."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import begin
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch")

from simkit.agent.burst_classes import (
    ClassActions,
    ClassEncoder,
    ClassTracker,
    class_set,
    classes_paper,
)
from simkit.agent.slotted import Slotted
from simkit.errors import ScenarioError
from simkit.learners.lockstep.class_games import ClassGames, potential, view_of
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.studies.schedqrm.rules import RULES
from simkit.policy.estimates import Actual
from simkit.rules import Rules
from simkit.traces.models.deeprm import SchedQRMModel
from simkit.workload.cluster import Cluster

MODEL = Slotted(
    capacity=(10, 10), slots=10, horizon=120, max_length=10, backlog=None, backlog_shown=10
)


def drawn(sets: int, jobs: int, seed: int = 0, rate: float | None = None) -> JobSets:
    model = SchedQRMModel(type="schedqrm", jobs=jobs, rate=rate)
    return JobSets(*model.draw_sets(np.random.default_rng(seed), sets))


@given(
    jobs=st.integers(1, 25),
    rate=st.sampled_from([None, 0.3, 1.0]),
    starts=st.sampled_from(["ahead", "now"]),
    patience=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
)
def test_lockstep_is_the_simulation(jobs, rate, starts, patience, seed):
    """Random choices, seen and allowed in both alike, start the jobs at the same times."""
    model, rng = SchedQRMModel(type="schedqrm", jobs=jobs, rate=rate), np.random.default_rng(seed)
    sets = JobSets(*model.draw_sets(np.random.default_rng(seed), 1))
    workload = model.generate(np.random.default_rng(seed)).workload
    games = ClassGames(ClassLockstep(MODEL, sets), starts, patience=patience)
    tracker, pool = ClassTracker(MODEL, patience), Cluster.pool({"cpu": 10.0, "mem": 10.0})
    run = begin(workload, pool, rules=Rules(scheduling={"step": 1.0}), predictor=Actual())
    simulation = run.simulation
    tracker.reset(simulation.info)
    actions = ClassActions(tracker, starts)
    encoders = [ClassEncoder(tracker, paper=paper) for paper in (True, False)]
    for state in simulation.decisions():
        if not len(games.active):
            continue
        placement: object = object()
        while placement is not None and len(games.active):
            tracker.update(state)
            mask = games.mask()[0]
            assert mask.tolist() == actions.mask(state).astype(bool).tolist()
            view = view_of(games.lockstep)
            for encoder, shown in zip(encoders, (classes_paper, class_set), strict=True):
                assert shown(view, MODEL)[0].tolist() == pytest.approx(
                    encoder.encode(state).tolist()
                )
            action = int(rng.choice(np.flatnonzero(mask)))
            if mask[-1] and rng.random() < 0.5:
                action = MODEL.slots
            placement = actions.action_of(state, action)
            if placement is not None:
                simulation.apply(placement)
            games.step(np.array([action]))
    simulation.recorder.flush()
    times = dict(run.rows("allocations", "job_id start_time_s"))
    assert [times[job] for job in workload.job_id] == games.lockstep.start[0, :jobs].tolist()


def test_rewards_by_delay_add_up_to_slowdowns():
    sets = drawn(20, 15)
    games = ClassLockstep(MODEL, sets)
    total = np.zeros(20)
    while len(games.active):
        active = games.active
        total[active] += games.step(RULES["SJF in order"].choose(games))
    slowdown = (games.finish / sets.length).sum(axis=1)
    assert total == pytest.approx(-(slowdown - 15 + sets.length.sum(axis=1)))


def test_other_readings_of_the_reward():
    sets = JobSets(np.zeros((1, 2), np.int64), np.array([[1, 4]]), np.full((1, 2, 2), 6))
    for reading, second in (("delay", -(4 + 1 / 4)), ("clock", -4.0), ("decisions", -(4 + 1 / 4))):
        games = ClassLockstep(MODEL, sets, reading=reading)
        assert games.step([0]).tolist() == [-1.0]
        assert games.step([3]).tolist() == [second]
    games = ClassLockstep(MODEL, sets, reading="clock")
    assert games.step([7]).tolist() == [-210.0]  # nobody is there: a step passes
    assert games.step([0]).tolist() == [-2.0]
    assert games.step([3]).tolist() == [-(4 + 1 / 4)]


def test_shaped_rewards_differ_by_the_first_potential():
    sets = drawn(30, 12)
    plain, shaped = (ClassGames(ClassLockstep(MODEL, sets), shaped=s) for s in (False, True))
    first = potential(plain.lockstep)
    rng, total = np.random.default_rng(1), np.zeros((2, 30))
    while len(active := plain.active):
        mask = plain.mask()
        actions = (mask * rng.random(mask.shape)).argmax(axis=1)
        for row, games in enumerate((plain, shaped)):
            total[row, active] += games.step(actions)
    assert total[1] == pytest.approx(total[0] - first)
    games = ClassLockstep(MODEL, sets)
    returns = np.zeros(30)
    while len(active := games.active):
        returns[active] += games.step(RULES["SJF in order"].choose(games))
    assert np.corrcoef(first, returns)[0, 1] > 0.8  # it is a good guess for this rule


def test_a_job_runs_for_its_length_whatever_it_is_taken_for():
    sets = drawn(10, 10)
    taken_for = np.clip(sets.length + np.random.default_rng(2).integers(-2, 3, (10, 10)), 1, 10)
    games = ClassLockstep(MODEL, sets, taken_for=taken_for)
    while len(games.active):
        games.step(RULES["SJF in order"].choose(games))
    assert (games.finish - games.start == sets.length).all()
    free = np.zeros((10, 200, 2), np.int64)
    for game, job in np.ndindex(10, 10):
        free[game, games.start[game, job] : games.finish[game, job]] += sets.size[game, job]
    assert free.max() <= 10
    exact = ClassLockstep(MODEL, sets)
    while len(exact.active):
        exact.step(RULES["SJF in order"].choose(exact))
    assert (games.start != exact.start).any()


def test_wrong_arguments():
    sets = drawn(2, 10)
    with pytest.raises(ScenarioError, match="reading is 'wait'"):
        ClassLockstep(MODEL, sets, reading="wait")  # type: ignore[arg-type]
    small = Slotted(capacity=(10, 10), slots=5, horizon=60, max_length=10, backlog=None)
    with pytest.raises(ScenarioError, match="5 classes"):
        ClassLockstep(small, sets)
