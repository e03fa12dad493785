"""Where a training's job sets come from: DeepRM's, Sofia's or SchedQRM's workload of a scenario.

A source knows the dimensions of the slotted model, draws fresh job sets, and has held-out ones that
are the same for all trainings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.arrays import Ints, stream
from simkit.errors import ScenarioError, TraceError
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.pool_in_steps import (
    RESOURCES,
    longest_job,
    pool_of_steps_problems,
    pool_problems,
)
from simkit.scenario import Scenario
from simkit.traces.models.deeprm import DeepRMModel, SchedQRMModel, SofiaModel

__all__ = ["ClassJobs", "JobSource", "SlotJobs"]

DrawnWorkload = DeepRMModel | SofiaModel | SchedQRMModel


class JobSource(ABC):
    """Job sets of a workload at one or several loads.

    Drawn sets of all loads bring as many jobs together, and stand load by load: else a load of few
    jobs would hardly be learned from.
    """

    model: Slotted
    """The dimensions of what an agent sees."""

    def __init__(self, workload: DrawnWorkload, loads: Sequence[float]) -> None:
        """Take a workload, at its own load or at others.

        Raises ScenarioError for loads that the workload does not have, or that are too high.
        """
        self._workloads = [_at_load(workload, load) for load in loads] or [workload]
        try:
            self._rarity = 1.0 / np.array([_jobs(one) for one in self._workloads])
        except TraceError as error:
            place = "learn.arguments.loads" if loads else "workload"
            raise ScenarioError(f"{place}: {error}") from error

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets, load by load."""
        counts = np.bincount(self.source_of(sets), minlength=len(self._workloads)).tolist()
        parts = zip(self._workloads, counts, strict=True)
        return JobSets.joined([JobSets(*one.draw_sets(rng, n)) for one, n in parts if n])

    @abstractmethod
    def held_out(self, sets: int) -> JobSets:
        """Return job sets to judge on; the same ones for every training, some may be empty."""

    def source_of(self, sets: int) -> Ints:
        """Return (S,) the number of the load of each drawn set, ascending."""
        until = np.rint(sets * self._rarity.cumsum() / self._rarity.sum())
        return np.searchsorted(until, np.arange(sets), side="right")


class SlotJobs(JobSource):
    """DeepRM's or Sofia's job sets for numbered slots.

    Held out are the unseen sets of DeepRM's code, as many of each load as far as they can be
    shared; of Sofia's workload those of a seed of their own.
    """

    def __init__(
        self, scenario: Scenario, who: str, loads: Sequence[float] = (), *,
        horizon: int | None = None, memory: int = 10, backlog_shown: int | None = None,
    ) -> None:  # fmt: skip
        """Read a scenario's model.

        Args:
            scenario: of DeepRM's or Sofia's workload.
            who: takes the jobs, such as ``the learner ppo``, for messages.
            loads: to mix, in place of the workload's own; DeepRM's alone.
            horizon: steps ahead that are planned; None: 20, or Sofia's 60.
            memory: largest count of steps since the last arrival.
            backlog_shown: tasks behind the slots that can be counted; None: all, at most 60.

        Raises ScenarioError, all problems at once, for another workload or cluster, or for jobs
        that are longer than the horizon.
        """
        workload, admission = scenario.workload, scenario.admission
        if not isinstance(workload, DeepRMModel | SofiaModel):
            raise ScenarioError(f"workload.type: {who} takes deeprm or sofia, not {workload.type}")
        if problems := list(_slot_problems(scenario, workload, who, loads)):
            raise ScenarioError(problems)
        super().__init__(workload, loads)
        is_deeprm = isinstance(workload, DeepRMModel)
        unit = workload.unit if isinstance(workload, DeepRMModel) else 1.0
        steps = horizon or (20 if is_deeprm else 60)
        shown = 60 if admission.backlog is None else max(admission.backlog, 1)
        self.model = Slotted(
            capacity=(round(workload.capacity / unit),) * len(RESOURCES),
            slots=admission.slots or 0,  # `pool_problems` has refused 0
            horizon=steps,
            max_length=longest_job(workload, steps),
            backlog=admission.backlog,
            backlog_shown=backlog_shown or shown,
            memory=memory,
            step_s=workload.step_s,
            unit=(unit,) * len(RESOURCES) if is_deeprm else (),
        )

    def held_out(self, sets: int) -> JobSets:
        if isinstance(self._workloads[0], SofiaModel):
            return self.draw(stream(0, "sofia.held_out"), sets)
        parts = len(self._workloads)
        return JobSets.joined(
            [
                unseen_sets(one, range(len(range(n, sets, parts))))
                for n, one in enumerate(self._workloads)
            ]
        )


class ClassJobs(JobSource):
    """SchedQRM's or DeepRM's job sets for burst classes: a slot for each length of a job.

    Held out are those of a seed of their own.
    """

    def __init__(
        self, scenario: Scenario, who: str, loads: Sequence[float] = (), *, horizon: int = 201
    ) -> None:
        """Read a scenario's model.

        Args:
            scenario: of SchedQRM's or DeepRM's workload.
            who: takes the jobs, such as ``the learner dqn``, for messages.
            loads: to mix, in place of the workload's own; SchedQRM's are shares of the classes.
            horizon: steps ahead in which jobs can be placed.

        Raises ScenarioError, all problems at once, for another workload or cluster, or for jobs
        that are longer than the horizon.
        """
        workload = scenario.workload
        if not isinstance(workload, SchedQRMModel | DeepRMModel):
            raise ScenarioError(
                f"workload.type: {who} takes schedqrm or deeprm, not {workload.type}"
            )
        problems = list(pool_of_steps_problems(scenario, workload, who))
        if isinstance(workload, SchedQRMModel):
            classes, unit = workload.classes, 1.0
        else:
            classes, unit = max(workload.long_steps[1], workload.short_steps[1]), workload.unit
            if workload.original_set is not None:
                problems.append(
                    f"workload.original_set: {who} draws its own job sets; leave it out"
                )
        if classes + 1 >= horizon:
            problems.append(
                f"workload: jobs take up to {classes} steps, and {who} looks {horizon} ahead; "
                f"shorten them, or give the learner dqn, which has it, horizon: {classes + 2}"
            )
        if problems:
            raise ScenarioError(problems)
        super().__init__(workload, loads)
        self.model = Slotted(
            capacity=(round(workload.capacity / unit),) * 2, slots=classes, horizon=horizon,
            max_length=classes, backlog=None, backlog_shown=10, step_s=workload.step_s,
            unit=(unit, unit),
        )  # fmt: skip

    def held_out(self, sets: int) -> JobSets:
        return self.draw(stream(0, "classes.held_out"), sets)

    def unseen(self, sets: int, first: int = 0) -> JobSets:
        """Return the unseen job sets of DeepRM's code from a number on.

        Raises ScenarioError if it is not DeepRM's workload.
        """
        return unseen_sets(self._workloads[0], range(first, first + sets))


def unseen_sets(workload: DrawnWorkload, numbers: range) -> JobSets:
    """Return some of the unseen job sets of DeepRM's code, at the workload's rate.

    Raises ScenarioError for another workload.
    """
    if not isinstance(workload, DeepRMModel):
        raise ScenarioError(f"workload.type: deeprm has unseen job sets, not {workload.type}")
    return JobSets.padded([workload.unseen_set(number) for number in numbers], len(RESOURCES))


def _at_load(workload: DrawnWorkload, load: float) -> DrawnWorkload:
    """Return a workload at another load: of SchedQRM's, the jobs as a share of the classes."""
    changes: dict[str, Any] = {"offered_load": load, "rate": None}
    if isinstance(workload, SchedQRMModel):
        changes = {"jobs": max(round(load * workload.classes), 1)}
    return workload.model_copy(update=changes)


def _jobs(workload: DrawnWorkload) -> float:
    """Return what the jobs of a set are proportional to; raises TraceError if too many."""
    if isinstance(workload, DeepRMModel):
        return workload.arrival_rate()
    return workload.jobs if isinstance(workload, SchedQRMModel) else workload.positions


def _slot_problems(
    scenario: Scenario, workload: DeepRMModel | SofiaModel, who: str, loads: Sequence[float]
) -> Iterator[str]:
    if isinstance(workload, DeepRMModel) and workload.original_set is not None:
        yield "workload.original_set: the agent is judged on these sets; leave it out for training"
    if isinstance(workload, SofiaModel) and loads:
        yield "learn.arguments.loads: only the workload deeprm has an offered load; leave it out"
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
