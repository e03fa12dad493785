"""The lock-step environment and the simulation: the same jobs and actions, the same of all else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import begin
from hypothesis import given
from hypothesis import strategies as st
from workloads import one_task_jobs

from simkit.agent.observe_slots import SlotSet, slot_set
from simkit.agent.rewards import make_reward
from simkit.agent.slotted import Slotted
from simkit.agent.slotted_tracker import SlotActions, SlottedTracker
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import JobSets
from simkit.policy.estimates import Actual
from simkit.rules import AdmissionRule, Rules
from simkit.traces.models.deeprm import DeepRMModel
from simkit.units import time_on_grid
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

TINY = Slotted(
    capacity=(4, 3), slots=2, horizon=7, max_length=6, backlog=1, backlog_shown=3, memory=3
)
FIELDS = ("occupied", "length", "size", "backlog", "since_arrival")


def workload(jobs, model):
    """Return jobs as a workload, and as a set."""
    enter, length, *size = (np.array(column) for column in zip(*jobs, strict=True))
    step_s, size = time_on_grid(model.step_s), np.column_stack(size)
    return one_task_jobs(enter * step_s, length * step_s, size), JobSets(
        enter[None], length[None], size[None]
    )


def assert_equal_runs(
    model: Slotted, jobs: Workload, sets: JobSets, rng: np.random.Generator, *, looks: bool = True
) -> None:
    """Play random actions in both and compare all that is seen, and all starts and ends."""
    env = Lockstep(model, sets)
    reward = make_reward("slowdown", {"least_run_s": model.step_s / 2})
    capacity = dict(zip(("cpu", "mem"), map(float, model.capacity), strict=True))
    rules = Rules(
        scheduling={"step": model.step_s},
        admission=AdmissionRule(slots=model.slots, backlog=model.backlog),
    )
    run = begin(jobs, Cluster.pool(capacity), rules=rules, predictor=Actual(), observer=reward)
    simulation = run.simulation
    reward.begin(jobs, simulation.info)
    tracker = SlottedTracker(model)
    actions = SlotActions(tracker)
    tracker.reset(simulation.info)
    encoder = SlotSet(tracker)
    paid = 0.0
    for state in simulation.decisions():
        assert reward.collect(state.now) == pytest.approx(paid, abs=1e-5)  # on the grid of times
        if not len(env.active):
            continue  # the simulation's last word: all is done
        placement = object()
        while placement is not None:
            tracker.update(state)
            seen, view = tracker.view(), env.view()
            for name in FIELDS:
                assert getattr(view, name)[0].tolist() == getattr(seen, name).tolist(), name
            if looks:  # which changes how starts are found, not what they are
                assert (env.mask()[0] == actions.mask(state)).all()
            numbers = slot_set(view, env.slot_facts(), model)[0]
            assert numbers.tolist() == encoder.encode(state).tolist()
            action = int(rng.integers(model.actions))
            placement = actions.action_of(state, action)
            if placement is not None:
                simulation.apply(placement)
            (paid,) = env.step([action])
    simulation.recorder.flush()
    assert len(env.active) == 0
    step_s = float(time_on_grid(model.step_s))
    times = run.rows("allocations", "job_id start_time_s end_time_s")
    assert {job: (start / step_s, end / step_s) for job, start, end in times} == {
        job: (start, end)
        for job, start, end in zip(jobs.job_id, env.start[0], env.finish[0], strict=False)
        if start >= 0
    }


JOB = st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(1, 4), st.integers(0, 3))


@given(
    jobs=st.lists(JOB, min_size=1, max_size=10),
    backlog=st.sampled_from([0, 1, 2, None]),
    step_s=st.sampled_from([1.0, 0.1, 3600.0]),
    looks=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_small_sets(jobs, backlog, step_s, looks, seed):
    """Several jobs at once, full backlogs, steps that are not on the grid of times."""
    model = replace(TINY, backlog=backlog, step_s=step_s)
    gaps = np.cumsum([gap for gap, *_ in jobs])
    jobs = [(gap, *rest) for gap, (_, *rest) in zip(gaps, jobs, strict=True)]
    assert_equal_runs(model, *workload(jobs, model), np.random.default_rng(seed), looks=looks)


@pytest.mark.parametrize("seed", range(3))
def test_deeprm_at_130_percent(seed):
    """The set that is drawn for learners is the workload of the same seed."""
    drawn = DeepRMModel.of(offered_load=1.3)
    trace = drawn.generate(np.random.default_rng(seed))
    sets = JobSets(*drawn.draw_sets(np.random.default_rng(seed), 1))
    assert_equal_runs(Slotted(), trace.workload, sets, np.random.default_rng(seed))
