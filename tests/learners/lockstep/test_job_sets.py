"""Job sets: rows of jobs, padded, and what cannot be one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simkit.agent.slotted import Slotted
from simkit.errors import ScenarioError
from simkit.learners.lockstep.job_sets import JobSets
from simkit.traces.models.deeprm import DeepRMModel


def test_shorter_sets_are_padded_at_the_end():
    parts = [
        JobSets(*(np.array(x) for x in ([[5]], [[2]], [[[1, 1]]]))),
        JobSets(*(np.array(x) for x in ([[0, 2]], [[1, 3]], [[[1, 2], [4, 0]]]))),
    ]
    sets = JobSets.joined(parts)
    assert sets.length.tolist() == [[2, 0], [1, 3]]
    assert sets.jobs.tolist() == [1, 2]
    assert sets.there.tolist() == [[True, False], [True, True]]


class TestArrays:
    @pytest.mark.parametrize(
        ("enter", "length", "word"),
        [
            ([[2, 1]], [[1, 1]], "order"),
            ([[0, 1]], [[0, 1]], "padding"),
            ([[-1, 1]], [[1, 1]], "before step 0"),
            ([[0, 1]], [[1, -1]], "negative"),
            ([[0, 1, 2]], [[1, 1]], "shapes"),
        ],
    )
    def test_rows_out_of_order_are_told(self, enter, length, word):
        with pytest.raises(ScenarioError, match=word):
            JobSets(np.array(enter), np.array(length), np.ones((1, 2, 1), np.int64))

    def test_take_gives_sets_in_the_order_asked_for(self):
        sets = JobSets(*DeepRMModel.of(rate=0.5).draw_sets(np.random.default_rng(0), 4))
        taken = sets.take([2, 0, 2])
        assert len(taken) == 3
        assert (taken.length == sets.length[[2, 0, 2]]).all()

    def test_a_model_of_other_resources_is_told(self):
        sets = JobSets.empty(1, 1, 2)
        with pytest.raises(ScenarioError, match="jobs ask for 2 resources, the model has 1"):
            sets.check_fit(replace(Slotted(), capacity=(10,)))
