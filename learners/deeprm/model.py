"""DeepRM's model from a scenario: its dimensions, and the job sets to train and to judge on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simkit.arrays import Ints
from simkit.errors import ScenarioError, TraceError
from simkit.learners.arguments import RESOURCES, longest_job, pool_problems
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learning.slotted import Slotted
from simkit.scenario import Scenario
from simkit.scenario.models import DeepRMWorkload
from simkit.traces.models.deeprm import UNIT, draw_job_sets, original_jobs


def slotted_model(scenario: Scenario, *, horizon: int, memory: int) -> Slotted:
    """Return the slotted model that a scenario describes, in units of its demands.

    Raises ScenarioError, all problems at once, if it is not DeepRM's workload on one pool in steps.
    """
    if problems := list(_problems(scenario)):
        raise ScenarioError(problems)
    workload, admission = _workload(scenario), scenario.admission
    unit = UNIT[workload.demands]
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


def _workload(scenario: Scenario) -> DeepRMWorkload:
    workload = scenario.workload
    assert isinstance(workload, DeepRMWorkload)  # `_problems` has refused others
    return workload


def _problems(scenario: Scenario) -> Iterator[str]:
    workload = scenario.workload
    if not isinstance(workload, DeepRMWorkload):
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
        workload = _workload(scenario)
        arguments = workload.reader_arguments()
        names = ("steps", "short_share", "short_steps", "long_steps", "max_size")
        self._shape = {name: arguments[name] for name in names}
        self._demands = workload.demands
        try:
            self.rate = arrival_rate(workload)
            self.draw(np.random.default_rng(0), 1)
        except TraceError as error:
            raise ScenarioError(f"workload: {error}") from error

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets."""
        drawn = draw_job_sets(rng, sets=sets, rate=self.rate, demands=self._demands, **self._shape)
        return JobSets(drawn.enter, drawn.length, drawn.size)

    def unseen(self, sets: int) -> JobSets:
        """Return sets 0, 1, … of the original's unseen ones at this rate; some may be empty."""
        rows: list[tuple[Ints, Ints, Ints]] = [
            original_jobs(n, self.rate, **self._shape) for n in range(sets)
        ]
        return JobSets.padded(rows, len(RESOURCES))


def arrival_rate(workload: DeepRMWorkload) -> float:
    """Return the probability of a job in a step: as given, or as the offered load needs it.

    A job's mean area is its mean length times its mean size, either resource being the dominant
    one as often; 1.845 capacities a job and step with the defaults.
    """
    if workload.rate is not None:
        return workload.rate
    assert workload.offered_load is not None  # the scenario has one of the two
    largest, unit = workload.max_size, UNIT[workload.demands]
    bounds = (max(largest // 2, 1), largest, 1, max(largest // 5, 1))
    share, short, long = workload.short_share, workload.short_steps, workload.long_steps
    length = share * sum(short) / 2 + (1 - share) * sum(long) / 2
    return workload.offered_load * workload.capacity / (length * unit * sum(bounds) / 4)
