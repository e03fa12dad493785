"""Where a training's job sets come from: DeepRM's or Sofia's workload of a scenario.

A source knows the dimensions of the slotted model, draws fresh job sets, and has held-out ones that
are the same for all trainings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.arrays import Ints, stream
from simkit.errors import ScenarioError, TraceError
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.pool_in_steps import RESOURCES, longest_job, pool_problems
from simkit.scenario import Scenario
from simkit.traces.models.deeprm import DeepRMModel, SofiaModel

__all__ = ["DeepRMJobs", "JobSource", "MixedJobs", "SofiaJobs", "job_source"]


class JobSource(Protocol):
    """Draws job sets of one workload."""

    model: Slotted
    """The dimensions of what an agent sees."""

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets."""

    def held_out(self, sets: int) -> JobSets:
        """Return job sets to judge on; the same ones for every training, some may be empty."""

    def source_of(self, sets: int) -> Ints:
        """Return (S,) which of several loads each drawn set has; 0 where there is one."""


class DeepRMJobs:
    """DeepRM's workload; held out are sets 0, 1, … of the original code's unseen ones."""

    def __init__(
        self, scenario: Scenario, who: str, *, horizon: int = 20, memory: int = 10
    ) -> None:
        """Read a scenario's model; `who`, such as ``the learner ppo``, is named in messages.

        Raises ScenarioError, all problems at once, if it is not DeepRM's workload on one pool in
        steps, or if its load needs more than a job a step.
        """
        workload, admission = scenario.workload, scenario.admission
        if not isinstance(workload, DeepRMModel):
            raise ScenarioError(f"workload.type: {who} takes deeprm, not {workload.type}")
        if problems := list(_deeprm_problems(scenario, workload, who)):
            raise ScenarioError(problems)
        unit = workload.unit
        self.model = Slotted(
            capacity=(round(workload.capacity / unit),) * len(RESOURCES),
            slots=admission.slots or 0,  # `pool_problems` has refused 0
            horizon=horizon,
            max_length=longest_job(workload, horizon),
            backlog=admission.backlog,
            backlog_shown=60 if admission.backlog is None else max(admission.backlog, 1),
            memory=memory,
            step_s=workload.step_s,
            unit=(unit,) * len(RESOURCES),
        )
        self._workload = workload
        try:
            self.rate = workload.arrival_rate()
        except TraceError as error:
            raise ScenarioError(f"workload: {error}") from error

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        return JobSets(*self._workload.draw_sets(rng, sets))

    def source_of(self, sets: int) -> Ints:
        return np.zeros(sets, np.int64)

    def held_out(self, sets: int) -> JobSets:
        """Return the original's unseen sets at this rate."""
        rows = [self._workload.unseen_set(number) for number in range(sets)]
        return JobSets.padded(rows, len(RESOURCES))


class SofiaJobs:
    """Sofia's workload; held-out sets are drawn by a seed of their own."""

    def __init__(
        self, scenario: Scenario, who: str, *, horizon: int = 60, backlog_shown: int = 60
    ) -> None:
        """Read a scenario's model; `who`, such as ``the learner ppo``, is named in messages.

        Raises ScenarioError, all problems at once, if it is not Sofia's batch on one pool in steps.
        """
        workload = scenario.workload
        if not isinstance(workload, SofiaModel):
            raise ScenarioError(f"workload.type: {who} takes sofia, not {workload.type}")
        if problems := list(pool_problems(scenario, workload, who)):
            raise ScenarioError(problems)
        self.model = Slotted(
            capacity=(workload.capacity,) * len(RESOURCES),
            slots=scenario.admission.slots or 0,
            horizon=horizon,
            max_length=longest_job(workload, horizon),
            backlog=scenario.admission.backlog,
            backlog_shown=backlog_shown,
            step_s=workload.step_s,
        )
        self._workload = workload

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets; raises ScenarioError if jobs do not fit the model."""
        drawn = JobSets(*self._workload.draw_sets(rng, sets))
        drawn.check_fit(self.model)
        return drawn

    def source_of(self, sets: int) -> Ints:
        return np.zeros(sets, np.int64)

    def held_out(self, sets: int) -> JobSets:
        return self.draw(stream(0, "sofia.held_out"), sets)


class MixedJobs:
    """DeepRM's workload at several loads; drawn sets of all loads bring as many jobs together.

    Sets stand load by load. Held out are as many sets of each load, as far as they can be shared.
    """

    def __init__(self, sources: Sequence[DeepRMJobs]) -> None:
        self.sources = tuple(sources)
        self.model = sources[0].model

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        counts = np.bincount(self.source_of(sets), minlength=len(self.sources)).tolist()
        return JobSets.joined([s.draw(rng, n) for s, n in zip(self.sources, counts, strict=True)])

    def held_out(self, sets: int) -> JobSets:
        parts = len(self.sources)
        counts = [len(range(n, sets, parts)) for n in range(parts)]
        return JobSets.joined([s.held_out(n) for s, n in zip(self.sources, counts, strict=True)])

    def source_of(self, sets: int) -> Ints:
        """Return (S,) the number of the source of each drawn set, ascending."""
        jobs_s = 1.0 / np.array([source.rate for source in self.sources])
        until = np.rint(sets * jobs_s.cumsum() / jobs_s.sum())
        return np.searchsorted(until, np.arange(sets), side="right")


def job_source(scenario: Scenario, learner: str, loads: Sequence[float] = ()) -> JobSource:
    """Return the source that fits a scenario's workload.

    Args:
        scenario: with DeepRM's or Sofia's workload.
        learner: its name, for messages.
        loads: offered loads to mix, in place of the workload's; none: the workload's.

    Raises ScenarioError, all problems at once, for another workload or cluster, or loads of a
    workload that has none.
    """
    who = f"the learner {learner}"
    if not loads:
        if isinstance(scenario.workload, DeepRMModel):
            return DeepRMJobs(scenario, who)
        if isinstance(scenario.workload, SofiaModel):
            return SofiaJobs(scenario, who)
        raise ScenarioError(
            f"workload.type: {who} takes deeprm or sofia, not {scenario.workload.type}"
        )
    if not isinstance(scenario.workload, DeepRMModel):
        raise ScenarioError(
            "learn.arguments.loads: only the workload deeprm has an offered load; leave it out"
        )
    return MixedJobs([_at_load(scenario, scenario.workload, load, who) for load in loads])


def _at_load(scenario: Scenario, workload: DeepRMModel, load: float, who: str) -> DeepRMJobs:
    """Return the source of a scenario with another offered load."""
    own = workload.model_copy(update={"offered_load": load, "rate": None})
    try:
        return DeepRMJobs(scenario.model_copy(update={"workload": own}), who)
    except ScenarioError as error:
        place = "workload: offered_load", "learn.arguments.loads"
        raise ScenarioError([text.replace(*place, 1) for text in error.problems]) from error


def _deeprm_problems(scenario: Scenario, workload: DeepRMModel, who: str) -> Iterator[str]:
    if workload.original_set is not None:
        yield "workload.original_set: the agent is judged on these sets; leave it out for training"
    yield from pool_problems(scenario, workload, who)


def refuse_loads_without_sets(job_sets: int, loads: Sequence[float], source: JobSource) -> None:
    """Raise ScenarioError if some loads would get none of an iteration's job sets."""
    sets = np.bincount(source.source_of(job_sets), minlength=len(loads))
    without = [f"{load:g}" for load, count in zip(loads, sets, strict=False) if not count]
    if without:
        raise ScenarioError(
            f"learn.arguments.job_sets: is {job_sets}, so that the loads {', '.join(without)} get "
            "no job set, because all loads bring equally many jobs; give more"
        )


def refuse_without_jobs(drawn: Mapping[str, JobSets]) -> None:
    """Raise ScenarioError for job sets that hold no job between them.

    Args:
        drawn: the argument that gives the number of sets → the sets.
    """
    problems = [
        f"learn.arguments.{argument}: the workload brings so few jobs that all {len(sets)} of "
        "these job sets are empty; raise the workload's rate or load, or give more sets"
        for argument, sets in drawn.items()
        if not sets.jobs.any()
    ]
    if problems:
        raise ScenarioError(problems)
