"""A fast model of a chunk under CloudSimPy's rules: the same placements as the engine's, compiled.

found = play(chunk, RULES["balance"])
trajectory = roll_out(chunk, scorer, rng)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from simkit import plugins
from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.machine_code import kernels
from simkit.workload import Workload

__all__ = ["Chunk", "Objective", "Outcome", "Trajectory", "chunks", "has_room", "play", "roll_out",
           "tasks_of"]  # fmt: skip

Placed = list[tuple[float, int, int, int]]
"""(tick, row of the task, machine, instances)."""
Objective = Literal["makespan", "turnaround", "weighted-turnaround", "slowdown"]
CLOCK: Final = "simkit.learners.scorers.cloudsimpy_kernel"
"""The compiled event loops."""
TERMS: Final = "simkit.learners.scorers.pair_kernel"
BOUND: Final = 10.0
"""Ticks; the bounded slowdown counts shorter jobs as this long."""


def _clock() -> Any:
    """Return what knows CloudSimPy's clock."""
    return plugins.find("simkit.policies", "cloudsimpy", kind="compat")


@dataclass(frozen=True)
class Chunk:
    """T tasks of consecutive jobs, on M machines with R resources, by CloudSimPy's clock.

    A tick is a second; the first job is submitted at tick 0.
    """

    seen: Floats
    """(T,) the tick at which the scheduler first sees the task, ascending."""
    hold: Floats
    """(T,) ticks for which an instance holds its machine."""
    run_s: Floats
    """(T,) run time of an instance."""
    request: Floats
    """(T, R) what an instance asks for, in the digits that were read."""
    instances: Ints
    """(T,)"""
    capacity: Floats
    """(M, R)"""
    job: Ints
    """(T,) the number of the task's job, ascending from 0."""

    @classmethod
    def of(cls, workload: Workload, capacity: Floats) -> Chunk:
        """Return all jobs of a workload.

        Raises ScenarioError for gangs of several instances, parents of tasks, releases of jobs, run
        times that differ between instances or are below a second, or an instance that fits on no
        machine.
        """
        stands = {
            "a task is a gang of several instances; read the trace as bags": not (
                workload.gang & (workload.instances > 1)
            ).any(),
            "tasks have parents; use a trace without": not len(workload.parent),
            "jobs have release times or preceding jobs; add dependencies: ignore": not (
                workload.has_releases
            ),
            "instances of a task have different run times; read one for each task": not len(
                workload.instance_run_time_s
            ),
            "a run time is below 1 s, and CloudSimPy has none; leave out such tasks": bool(
                (workload.run_time_s >= 1.0).all()
            ),
        }
        problems = [f"workload: {text}" for text, holds in stands.items() if not holds]
        request = workload.request_as_read if len(workload.request_as_read) else workload.request
        if not has_room(request, capacity):
            problems.append(
                "workload: an instance asks for more than any machine has; take larger machines"
            )
        if problems:
            raise ScenarioError(problems)
        submit = workload.submit_time_s
        begin_s = float(np.floor(submit[0])) if len(submit) else 0.0
        ticks = _clock().arrival_ticks(begin_s)
        seen = np.array([ticks.next(each) for each in submit.tolist()]) - begin_s
        return cls(
            np.repeat(seen, np.diff(workload.first_task)),
            _clock().hold_ticks(workload.run_time_s),
            workload.run_time_s.copy(),
            np.ascontiguousarray(request, np.float64),
            workload.instances.astype(np.int64),
            np.ascontiguousarray(capacity, np.float64),
            np.repeat(np.arange(len(workload)), np.diff(workload.first_task)),
        )

    def varied(self, rng: np.random.Generator, requests: float, run_times: float) -> Chunk:
        """Return the chunk with other requests and run times.

        All requests for a resource get the same factor, drawn from a lognormal distribution around
        1, and all run times get another. An instance asks at most for what the first machine has
        that it fitted on, and runs for a second at least.

        Args:
            rng: draws the factors.
            requests: standard deviation of the logarithms of the resources' factors.
            run_times: the same of that of run times.
        """
        factors = np.exp(rng.normal(0.0, requests, self.request.shape[1]))
        fits = np.all(self.request[:, None] <= self.capacity, axis=2)
        room = self.capacity[fits.argmax(axis=1)]
        run_s = np.maximum(self.run_s * np.exp(rng.normal(0.0, run_times)), 1.0)
        request = np.minimum(self.request * factors, room)
        return replace(self, request=request, run_s=run_s, hold=_clock().hold_ticks(run_s))

    @property
    def total_instances(self) -> int:
        """Instances of all tasks."""
        return int(self.instances.sum())


def has_room(request: Floats, capacity: Floats) -> bool:
    """Return whether each of (T, R) requests fits on one of (M, R) empty machines."""
    return bool(np.all(request[:, None] <= capacity, axis=2).any(axis=1).all())


def chunks(
    workload: Workload, capacity: Floats, jobs: int = 10, apart: int | None = None
) -> Iterator[Chunk]:
    """Yield chunks of `jobs` consecutive jobs, from the first job on.

    Args:
        workload: the jobs.
        capacity: (M, R) of the machines.
        jobs: of each chunk; the last one may have fewer.
        apart: jobs from the beginning of a chunk to that of the next; chunks that would only repeat
            the end of the one before are left out. None: as many as `jobs`.
    """
    apart = jobs if apart is None else apart
    for first in range(0, max(len(workload) - jobs, 0) + apart, apart):
        if first >= len(workload):
            return
        rows = np.arange(first, min(first + jobs, len(workload)))
        submit = workload.submit_time_s[rows]
        whole = float(np.floor(submit[0]))  # ticks are whole seconds of the trace's clock
        yield Chunk.of(workload.take(rows, submit_time_s=submit - whole), capacity)


@dataclass(frozen=True)
class Outcome:
    """How a chunk was scheduled."""

    makespan: float
    """The tick at which the last instance's resources come free; infinity if rounding of free
    amounts keeps an instance from ever fitting."""
    placed: Placed

    def cost(self, chunk: Chunk, objective: Objective) -> float:
        """Return what the schedule costs; infinity if it has no end.

        Args:
            chunk: what was scheduled.
            objective: ``makespan``, in ticks; ``turnaround``, the mean over jobs of the ticks from
                being seen to the end; ``weighted-turnaround``, the same with jobs weighted by their
                instances; ``slowdown``, the mean of the turnaround over the ticks of the job's
                longest instance, but no fewer than `BOUND`. Unlike a bounded slowdown it may be
                below 1.
        """
        if objective == "makespan" or np.isinf(self.makespan):
            return self.makespan
        tick, task, _, _ = np.array(self.placed).T
        rows, first = task.astype(np.int64), np.flatnonzero(np.diff(chunk.job, prepend=-1))
        end = np.full(len(first), -np.inf)  # (J,)
        np.maximum.at(end, chunk.job[rows], tick + chunk.hold[rows])
        return float(_weights(chunk, objective, first) @ (end - chunk.seen[first]))


def _weights(chunk: Chunk, objective: Objective, first: Ints) -> Floats:
    """Return (J,) what a tick of each job costs; `first` are the rows of their first tasks."""
    if objective == "weighted-turnaround":
        return np.add.reduceat(chunk.instances, first) / max(chunk.total_instances, 1)
    if objective == "slowdown":
        longest = np.maximum.reduceat(chunk.hold, first)
        return 1.0 / np.maximum(longest, BOUND) / len(first)
    return np.full(len(first), 1.0 / len(first))


@dataclass(frozen=True)
class Trajectory:
    """What a scorer saw and drew in a chunk: D decisions, each among the pairs that fit."""

    seen: npt.NDArray[np.float32]
    """(U, F) features of pairs, shifted and scaled; decisions share those that do not change."""
    pairs: npt.NDArray[np.int32]
    """(P,) rows of `seen`: the pairs that fit, decision by decision."""
    first: Ints
    """(D + 1,) where each decision's pairs begin in `pairs`."""
    chosen: Ints
    """(D,) which of its pairs was drawn, from 0."""
    tick: Floats
    """(D,) tick of each decision."""
    task: Ints
    """(D,) the row of the task whose instance was placed."""
    makespan: float


def play(chunk: Chunk, scorer: PairScorer, most: int = 1) -> Outcome:
    """Place the pair with the highest score until none fits, at every tick.

    Ties go to the first machine, then to the oldest task.

    Args:
        chunk: the tasks and machines.
        scorer: of pairs.
        most: instances that a pair gets at a time; more are quicker, and a little worse.
    """
    span, placed = kernels(CLOCK).play(tasks_of(chunk), kernels(TERMS).weights_of(scorer), most)
    return Outcome(span, placed)


def roll_out(chunk: Chunk, scorer: PairScorer, rng: np.random.Generator) -> Trajectory:
    """Draw pairs, one instance at a time, with probabilities in proportion to exp(score)."""
    return Trajectory(
        *kernels(CLOCK).roll_out(tasks_of(chunk), kernels(TERMS).weights_of(scorer), rng)
    )


def tasks_of(chunk: Chunk) -> Any:
    """Return a chunk as the compiled functions take it."""
    total = chunk.capacity.sum(axis=0)
    total = np.where(total > 0, total, 1.0)
    share = (chunk.request / total).max(axis=1, initial=0.0)
    return kernels(CLOCK).Tasks(
        chunk.seen, chunk.hold, chunk.run_s, chunk.request, chunk.instances, chunk.capacity,
        share, total,
    )  # fmt: skip
