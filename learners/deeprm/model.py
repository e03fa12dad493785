"""DeepRM's model from a scenario: its dimensions, and the job sets to train and to judge on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simkit.errors import ScenarioError, TraceError
from simkit.learners.arguments import RESOURCES, longest_job, pool_problems
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learning.slotted import Slotted
from simkit.scenario import Scenario
from simkit.traces.models.deeprm import DeepRMModel


def slotted_model(scenario: Scenario, *, horizon: int, memory: int) -> Slotted:
    """Return the slotted model that a scenario describes, in units of its demands.

    Raises ScenarioError, all problems at once, if it is not DeepRM's workload on one pool in steps.
    """
    if problems := list(_problems(scenario)):
        raise ScenarioError(problems)
    workload, admission = _workload(scenario), scenario.admission
    unit = workload.unit
    return Slotted(
        capacity=(round(workload.capacity / unit),) * len(RESOURCES),
        slots=admission.slots or 0,  # `_problems` has refused 0
        horizon=horizon,
        max_length=longest_job(workload, horizon),
        backlog=admission.backlog,
        backlog_shown=60 if admission.backlog is None else max(admission.backlog, 1),
        memory=memory,
        step_s=workload.step_s,
        unit=(unit,) * len(RESOURCES),
    )


def _workload(scenario: Scenario) -> DeepRMModel:
    workload = scenario.workload
    assert isinstance(workload, DeepRMModel)  # `_problems` has refused others
    return workload


def _problems(scenario: Scenario) -> Iterator[str]:
    workload = scenario.workload
    if not isinstance(workload, DeepRMModel):
        yield f"workload.type: the learner deeprm takes deeprm, not {workload.type}"
        return
    if workload.original_set is not None:
        yield "workload.original_set: the agent is judged on these sets; leave it out for training"
    yield from pool_problems(scenario, workload, "deeprm")


class JobSource:
    """Job sets of a scenario's workload: fresh ones, and the unseen ones of the original."""

    def __init__(self, scenario: Scenario) -> None:
        """Work out the rate of arrivals.

        Raises ScenarioError if the offered load needs more than a job a step.
        """
        self._workload = _workload(scenario)
        try:
            self.rate = self._workload.arrival_rate()
        except TraceError as error:
            raise ScenarioError(f"workload: {error}") from error

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets."""
        return JobSets(*self._workload.draw_sets(rng, sets))

    def unseen(self, sets: int) -> JobSets:
        """Return sets 0, 1, … of the original's unseen ones at this rate; some may be empty."""
        rows = [self._workload.unseen_set(number) for number in range(sets)]
        return JobSets.padded(rows, len(RESOURCES))
