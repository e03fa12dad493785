"""Sources of job sets: their loads, and what is held out."""

from __future__ import annotations

import numpy as np
import pytest
from trainings import deeprm_scenario

from simkit.learners.lockstep.job_sources import SlotJobs


@pytest.mark.parametrize("demands", ["original", "paper"])
def test_job_sets_have_the_offered_load_and_fit_the_model(demands):
    workload = {"type": "deeprm", "offered_load": 0.7, "demands": demands}
    source = SlotJobs(deeprm_scenario(workload=workload), "a test")
    sets = source.draw(np.random.default_rng(0), 100)
    sets.check_fit(source.model)
    area = (sets.length[..., None] * sets.size).sum(axis=(0, 1)) / source.model.capacity
    assert area / (100 * 49) == pytest.approx([0.7, 0.7], rel=0.1)


def test_the_unseen_sets_are_the_originals():
    """Padded rows hold what tests/traces/models/test_deeprm.py compares with the original."""
    scenario = deeprm_scenario(workload={"type": "deeprm", "rate": 0.379})
    sets = SlotJobs(scenario, "a test").held_out(5)
    for number in range(5):
        enter, length, size = scenario.workload.unseen_set(number)
        there = sets.there[number]
        assert sets.enter[number][there].tolist() == enter.tolist()
        assert sets.length[number][there].tolist() == length.tolist()
        assert sets.size[number][there].tolist() == size.tolist()


def test_of_several_loads_each_brings_as_many_jobs():
    mixed = SlotJobs(deeprm_scenario(), "a test", (0.1, 0.3, 1.2))
    sets = mixed.draw(np.random.default_rng(0), 1700)
    assert np.bincount(mixed.source_of(1700)).tolist() == [1200, 400, 100]
    jobs = np.bincount(mixed.source_of(1700), sets.jobs)
    assert jobs == pytest.approx([jobs.mean()] * 3, rel=0.1)


def test_of_several_loads_as_many_sets_are_held_out():
    few, many = (SlotJobs(deeprm_scenario(), "a test", (load,)) for load in (0.1, 1.8))
    mixed = SlotJobs(deeprm_scenario(), "a test", (0.1, 1.8))
    expected = [*few.held_out(3).jobs, *many.held_out(2).jobs]
    assert mixed.held_out(5).jobs.tolist() == expected
