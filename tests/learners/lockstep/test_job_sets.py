"""Job sets: workloads told in steps and units, and what cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from engine_runs import a_gang, make_jobs
from workloads import one_task_jobs

from simkit.agent.slotted import Slotted
from simkit.errors import ScenarioError
from simkit.learners.lockstep.job_sets import JobSets
from simkit.traces.models.deeprm import DeepRMModel
from simkit.workload import Workload


def workload(submit=(0, 2), run=(1, 3), request=((1, 2), (4, 0)), **changes):
    return replace(one_task_jobs(submit, run, request), **changes)


class TestOf:
    def test_times_become_steps_and_amounts_units(self):
        model = Slotted(step_s=60.0, unit=(0.5, 2.0))
        sets = JobSets.of([workload(submit=(60, 180), run=(120, 60))], model)
        assert sets.enter.tolist() == [[1, 3]]
        assert sets.length.tolist() == [[2, 1]]
        assert sets.size.tolist() == [[[2, 1], [8, 0]]]

    def test_shorter_sets_are_padded_at_the_end(self):
        one = workload(submit=(5,), run=(2,), request=((1, 1),))
        sets = JobSets.of([one, workload()], Slotted())
        assert sets.length.tolist() == [[2, 0], [1, 3]]
        assert sets.jobs.tolist() == [1, 2]
        assert sets.there.tolist() == [[True, False], [True, True]]

    @pytest.mark.parametrize("step_s", [1.0, 0.1, 60.0])  # 0.1 s is not on the grid of times
    def test_a_drawn_set_and_its_workload_are_the_same_jobs(self, step_s):
        drawn = JobSets(*DeepRMModel.of(rate=0.4).draw_sets(np.random.default_rng(3), 2))
        trace = DeepRMModel.of(rate=0.4, step_s=step_s).generate(np.random.default_rng(3))
        found = JobSets.of([trace.workload], Slotted(step_s=step_s))
        jobs = drawn.jobs[0]
        for name in ("enter", "length", "size"):
            assert (getattr(found, name)[0] == getattr(drawn, name)[0, :jobs]).all()

    def test_all_that_is_wrong_is_told_at_once_with_its_set(self):
        wrong = [
            workload(submit=(0.5, 2)),
            workload(run=(0, 1.5), request=((0.5, 1), (1, 1))),
            workload(gang=np.zeros(2, np.bool_), instances=np.array([2, 1])),
            Workload.from_jobs(
                {"job_id": [1], "submit_time_s": [0], "run_time_s": [1], "processors": [1]}
            ),
            make_jobs(  # a job of two tasks, the second after the first
                (0, a_gang(1, 1, request=(1, 2)), a_gang(1, 3, request=(4, 0))),
                resources=("cpu", "mem"), first_parent=[0, 0, 1], parent=[0],
            ),
            workload(first_predecessor=np.array([0, 0, 1]), predecessor=np.array([0])),
        ]  # fmt: skip
        with pytest.raises(ScenarioError) as error:
            JobSets.of(wrong, Slotted())
        sets = [int(text.split()[2].rstrip(":")) for text in error.value.problems]
        assert sets == [0, 1, 1, 1, 2, 3, 4, 4, 5]


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
