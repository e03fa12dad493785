"""Where job sets of burst classes come from: SchedQRM's workload, or DeepRM's by length."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.arrays import Ints, stream
from simkit.errors import ScenarioError, TraceError
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.lockstep.pool_in_steps import pool_of_steps_problems
from simkit.scenario import Scenario
from simkit.traces.models.deeprm import DeepRMModel, SchedQRMModel

__all__ = ["ClassJobs"]

ClassWorkload = SchedQRMModel | DeepRMModel


class ClassJobs:
    """Job sets of one or several loads; a slot for each length of a job.

    Drawn sets of all loads bring as many jobs together, and stand load by load: else a load of few
    jobs would hardly be learned from. Held out are those of a seed of their own.
    """

    def __init__(
        self, scenario: Scenario, who: str, loads: Sequence[float] = (), *, horizon: int = 201
    ) -> None:
        """Read a scenario's model.

        Args:
            scenario: of SchedQRM's or DeepRM's workload.
            who: takes the jobs, such as ``the learner dqn``, for messages.
            loads: to mix, in place of the workload's own.
            horizon: steps ahead in which jobs can be placed.

        Raises ScenarioError, all problems at once, for another workload or cluster, or for jobs
        that are longer than the horizon.
        """
        workload = scenario.workload
        if not isinstance(workload, ClassWorkload):
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
                f"shorten them, or give a learner that knows it a horizon of at least {classes + 2}"
            )
        if problems:
            raise ScenarioError(problems)
        self._workloads = [_at_load(workload, load) for load in loads] or [workload]
        try:
            self._rarity = 1.0 / np.array([_jobs(load) for load in self._workloads])
        except TraceError as error:
            place = "learn.arguments.loads" if loads else "workload"
            raise ScenarioError(f"{place}: {error}") from error
        self.model = Slotted(
            capacity=(round(workload.capacity / unit),) * 2, slots=classes, horizon=horizon,
            max_length=classes, backlog=None, backlog_shown=10, step_s=workload.step_s,
            unit=(unit, unit),
        )  # fmt: skip

    def draw(self, rng: np.random.Generator, sets: int) -> JobSets:
        """Return fresh job sets, load by load."""
        counts = np.bincount(self.source_of(sets), minlength=len(self._workloads)).tolist()
        parts = zip(self._workloads, counts, strict=True)
        return JobSets.joined([JobSets(*load.draw_sets(rng, n)) for load, n in parts if n])

    def held_out(self, sets: int) -> JobSets:
        """Return job sets to judge on; the same ones for every training."""
        return self.draw(stream(0, "classes.held_out"), sets)

    def unseen(self, sets: int, first: int = 0) -> JobSets:
        """Return the original's unseen job sets from a number on.

        Raises ScenarioError if it is not DeepRM's workload.
        """
        workload = self._workloads[0]
        if not isinstance(workload, DeepRMModel):
            raise ScenarioError(f"workload.type: deeprm has unseen job sets, not {workload.type}")
        return JobSets.padded([workload.unseen_set(first + number) for number in range(sets)], 2)

    def source_of(self, sets: int) -> Ints:
        """Return (S,) the number of the load of each drawn set, ascending."""
        until = np.rint(sets * self._rarity.cumsum() / self._rarity.sum())
        return np.searchsorted(until, np.arange(sets), side="right")


def _at_load(workload: ClassWorkload, load: float) -> ClassWorkload:
    """Return a workload at another load: of SchedQRM's, the jobs as a share of the classes."""
    if isinstance(workload, SchedQRMModel):
        jobs = max(round(load * workload.classes), 1)
        return workload.model_copy(update={"jobs": jobs})
    return workload.model_copy(update={"offered_load": load, "rate": None})


def _jobs(load: ClassWorkload) -> float:
    """Return what the jobs of a set are proportional to; raises TraceError if too many."""
    return load.jobs if isinstance(load, SchedQRMModel) else load.arrival_rate()
