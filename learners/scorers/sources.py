"""Where scorers learn: windows of logs and chunks of a table of tasks, drawn or held out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor
from typing import Annotated, Final, Self

import numpy as np
from pydantic import Field, model_validator

from simkit.arrays import Floats
from simkit.errors import ScenarioError, TraceError, at_key
from simkit.experiment.workload import read_trace
from simkit.learners.common.arguments import attempt, unsuited
from simkit.learners.pools.jobs import PoolJobs
from simkit.learners.scorers.agent import foreign_rules, unknown_to_jobs
from simkit.learners.scorers.pair_model import Chunk, chunks, has_room
from simkit.scenario import Scenario
from simkit.scenario.references import File
from simkit.sections import BrokenRulesError, Count, Section
from simkit.traces.swf import RLSchedulerLog
from simkit.workload import Workload

__all__ = ["ChunkSource", "FurtherLog", "WindowSource", "logs_of"]

_TRIES: Final = 20  # to find a window in which jobs wait


def _foreign_keys(scenario: Scenario, known: set[str], form: str) -> list[str]:
    """Return which of a scenario's cluster and power no fast model has, a line each.

    Args:
        scenario: any.
        known: keys of the cluster that the model has.
        form: what the cluster must be, in words.
    """
    given = scenario.cluster.model_dump(exclude_defaults=True).keys()
    problems = [] if given <= known else [f"cluster: must be {form}, and nothing else"]
    if scenario.power is not None:
        problems.append("power: is not supported by this learner; leave it out")
    return problems


@dataclass(frozen=True)
class WindowSource:
    """Draws windows from several logs in turn.

    Attributes:
        logs: the jobs of each log that may be trained on, or held out: of the workload, then of
            `learn.arguments.logs`.
        jobs: fewest and most jobs of a window that is drawn; held-out ones have the most.
        held_out_share: the last jobs of every log, in (0, 1), or 0, are not trained on.
        slowdown: the mean bounded slowdown of a window under a base rule.
        least_slowdown: windows with less are passed over: rules differ where jobs wait.

    Raises ScenarioError if a log has no window of this length.
    """

    logs: Sequence[PoolJobs]
    jobs: tuple[int, int]
    held_out_share: float
    slowdown: Callable[[PoolJobs], float]
    least_slowdown: float

    def __post_init__(self) -> None:
        most, problems = self.jobs[1], []
        parts = [(cut, len(log) - cut) for log, cut in zip(self.logs, self._cuts(), strict=True)]
        shortest = [min(part if self.held_out_share else part[:1]) for part in parts]
        for place, (trained, unseen) in enumerate(parts):
            if shortest[place] < most:
                key, whose = f"logs.{place - 1}", "log"
                if place == 0:
                    key, whose = "most_jobs", "workload"
                problems.append(
                    f"learn.arguments.{key}: a window has up to {most:,} jobs, and of the "
                    f"{trained + unseen:,} of the {whose} {trained:,} are trained on and "
                    f"{unseen:,} held out; {self._smaller(min(shortest))}"
                )
        if problems:
            raise ScenarioError(problems)

    def _smaller(self, most: int) -> str:
        """Return which windows would do, where there are `most` jobs for one."""
        if most < 1:
            return "take a longer log"
        fewer = f" and fewest_jobs: {max(most // 4, 1)}" if self.jobs[0] > most else ""
        return f"give most_jobs: {most}{fewer}, or take a longer log"

    def _cuts(self) -> list[int]:
        """Return the first row of each log that is held out."""
        return [len(log) - int(len(log) * self.held_out_share) for log in self.logs]

    def draw(self, rng: np.random.Generator, windows: int) -> list[PoolJobs]:
        """Return fresh windows of the logs in turn, of even lengths between fewest and most jobs.

        If several draws fail, the last is taken.
        """
        chosen, cuts = [], self._cuts()
        for number in range(windows):
            place = number % len(self.logs)
            for _ in range(_TRIES):
                jobs = int(rng.integers(self.jobs[0], self.jobs[1] + 1))
                first = int(rng.integers(0, cuts[place] - jobs + 1))
                window = self.logs[place].window(first, jobs)
                if self.slowdown(window) >= self.least_slowdown:
                    break
            chosen.append(window)
        return chosen

    def held_out(self, windows: int) -> list[PoolJobs]:
        """Return at most `windows` windows of each log in turn, evenly over what is not trained on.

        None if nothing is held out; those in which few jobs wait are passed over. Raises
        ScenarioError if they all are.
        """
        if not self.held_out_share:
            return []
        jobs, found, highest = self.jobs[1], [], 0.0
        each = -(-windows // len(self.logs))
        for log, cut in zip(self.logs, self._cuts(), strict=True):
            for first in np.linspace(cut, len(log) - jobs, each).astype(int):
                window = log.window(int(first), jobs)
                slowdown = self.slowdown(window)
                highest = max(highest, slowdown)
                if slowdown >= self.least_slowdown:
                    found.append(window)
        if not found:
            raise ScenarioError(
                f"learn.arguments.least_slowdown: is {self.least_slowdown:g}, and in no held-out "
                f"window does SAF-p have more than {highest:.4g}; give {floor(highest)} or less"
            )
        return found


class FurtherLog(Section):
    """A training log in addition to the scenario's, read as RLScheduler reads it."""

    path: File
    """The log's file."""
    processors: Count
    """Processors of its machine."""
    first: Annotated[int, Field(ge=0)] = 0
    """Rank of the first job to use."""
    last: Annotated[int, Field(ge=0)] | None = None
    """Rank of the last job to use; null: the last of the log."""

    @model_validator(mode="after")
    def _first_is_not_after_last(self) -> Self:
        if self.last is not None and self.first > self.last:
            text = f"is {self.first} and last {self.last}; exchange them"
            raise BrokenRulesError([(("first",), text)])
        return self

    def jobs(self) -> PoolJobs:
        """Return the jobs.

        Raises ScenarioError if arguments do not fit the log, TraceError if it cannot be read.
        """
        whole = RLSchedulerLog.of(path=self.path).read().workload
        end, last = len(whole) - 1, self.last
        for name, rank in (("first", self.first), ("last", self.first if last is None else last)):
            if rank > end:
                raise ScenarioError(f"{name}: is {rank}, but the last job of the log is {end}")
        used = whole.take(np.arange(self.first, (end if last is None else last) + 1))
        widest = (used.request[:, 0] * used.instances).max()
        if widest > self.processors:
            raise ScenarioError(
                f"processors: is {self.processors}, but a job asks for {widest:g}; give the size "
                "of its machine"
            )
        return PoolJobs.of(used, self.processors)


def logs_of(scenario: Scenario, further: Sequence[FurtherLog]) -> list[PoolJobs]:
    """Return the jobs of a scenario and of further logs.

    Raises ScenarioError, all problems at once, for what the fast simulation does not support.
    """
    problems = _foreign_keys(scenario, {"processors"}, "one pool, {processors: N}")
    estimates = scenario.estimates
    if (estimates.type, estimates.correction) != ("requested", "none") or estimates.args:
        problems.append("estimates: must be requested, without arguments or correction")
    problems += unknown_to_jobs(scenario)
    if problems:
        known = "one pool of processors that decides at every event by requested times"
        raise unsuited("learn.arguments.scorer:", known, problems)
    workload = read_trace(scenario.workload, scenario.seed).workload
    size = int(scenario.cluster.build(workload).capacity[0, 0])
    logs = [PoolJobs.of(workload, size)]
    for number, log in enumerate(further):
        key = f"learn.arguments.logs.{number}"
        try:
            logs.append(log.jobs())
        except ScenarioError as error:
            problems += [f"{key}.{text}" for text in error.problems]
        except TraceError as error:
            problems += at_key(key, [str(error)])
    if problems:
        raise ScenarioError(problems)
    return logs


_KNOWN: Final = "bags of tasks on machines that are always there"  # to the fast model of a chunk


@dataclass(frozen=True)
class ChunkSource:
    """Equal chunks of consecutive jobs of a trace, each on an empty cluster.

    Run times are the true ones, whatever the scenario's estimates.
    """

    trained: tuple[Chunk, ...]
    """Chunks of the first jobs, in order, each on every number of machines."""
    held_out: tuple[Chunk, ...]
    """Chunks of the last jobs, on the scenario's machines; never trained on."""
    resources: tuple[str, ...]

    @classmethod
    def of(
        cls, scenario: Scenario, jobs: int, held_out: float, who: str, *,
        apart: int | None = None, machines: Sequence[int] = (),
    ) -> ChunkSource:  # fmt: skip
        """Return the chunks of a scenario.

        Args:
            scenario: its trace and its cluster.
            jobs: of each chunk; the last one may have fewer.
            held_out: share of the chunks one after the other, in [0, 1), rounded down.
            who: asks for them, such as ``learn.learner: mine``, for messages.
            apart: jobs from the beginning of a chunk to train on to that of the next; None: `jobs`.
            machines: how many to train on: the first ones of the cluster, or all of them, over and
                over; none: the cluster as it is.

        Raises ScenarioError, all problems at once, for what the fast model of a chunk does not
        know, and for a trace that leaves no chunk to train on.
        """
        workload = read_trace(scenario.workload, scenario.seed).workload
        cluster = scenario.cluster.build(workload)
        capacity, counts = cluster.capacity, machines or (len(cluster.capacity),)
        if problems := _misfits(scenario, cluster.resources, workload, capacity):
            raise unsuited(who, _KNOWN, problems)
        if has_room(workload.request, capacity):
            problems = [
                f"learn.arguments.machines: an instance asks for more than any of {count} has; "
                "give more, or name the larger machines first"
                for count in counts
                if not has_room(workload.request, _repeated(capacity, count))
            ]
        in_row = ceil(len(workload) / jobs)
        cut = (in_row - int(in_row * held_out)) * jobs
        if not cut:
            problems.append("workload: has no jobs to train on; give a longer trace or window")
        if problems:
            raise ScenarioError(problems)
        rows = np.arange(len(workload))
        try:
            trained = [
                replace(chunk, capacity=_repeated(capacity, count))
                for chunk in chunks(workload.take(rows[:cut]), capacity, jobs, apart)
                for count in counts
            ]
            unseen = tuple(chunks(workload.take(rows[cut:]), capacity, jobs))
        except ScenarioError as error:
            raise unsuited(who, _KNOWN, error.problems) from None
        return cls(tuple(trained), unseen, tuple(workload.resources))

    def draw(self, rng: np.random.Generator, count: int) -> list[Chunk]:
        """Return `count` different chunks to train on, or all if there are fewer, in order."""
        count = min(count, len(self.trained))
        chosen = rng.choice(len(self.trained), count, replace=False)
        return [self.trained[number] for number in sorted(chosen.tolist())]


def _repeated(capacity: Floats, count: int) -> Floats:
    """Return (count, R) of (M, R): the first rows, or all of them, over and over."""
    return np.ascontiguousarray(capacity[np.arange(count) % len(capacity)])


def _misfits(
    scenario: Scenario, resources: Sequence[str], workload: Workload, capacity: Floats
) -> list[str]:
    """Return what of a scenario the fast model of a chunk does not know, a line each.

    Args:
        scenario: any.
        resources: names of the cluster's.
        workload: all jobs; of their tasks, those of the first are looked at.
        capacity: (M, R) of the machines.
    """
    asked = workload.resources
    problems = _foreign_keys(scenario, {"machines", "processors"}, "machines, or processors")
    problems += foreign_rules(scenario)
    if scenario.scheduling.step is not None:
        problems.append("scheduling: step must be left out")
    if resources == asked:
        attempt(lambda: next(chunks(workload, capacity, 1), None), problems)
    else:
        problems.append(
            f"cluster: its resources are {', '.join(resources)}, those of the trace "
            f"{', '.join(asked)}; name the same ones in the same order"
        )
    return problems
