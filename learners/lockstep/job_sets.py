"""Job sets: many small workloads of a slotted model side by side, as arrays in steps and units.

A learner plays the same few dozen jobs repeatedly, in about a hundred sets at once. A job set is
one row: its jobs in order of arrival, then padding of length 0 if other sets have more jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.units import time_on_grid
from simkit.workload import Workload


@dataclass(frozen=True)
class JobSets:
    """S job sets of at most J jobs that ask for R resources."""

    enter: Ints
    """(S, J) step in which a job arrives, ascending along a row."""
    length: Ints
    """(S, J) steps that the job takes; 0: padding, at the end of a row."""
    size: Ints
    """(S, J, R) units that the job holds."""

    def __post_init__(self) -> None:
        """Raise ScenarioError for arrays of different shapes, or rows out of order."""
        shape = self.length.shape
        if len(shape) != 2 or self.enter.shape != shape or self.size.shape[:-1] != shape:
            raise ScenarioError(
                [
                    f"job sets: enter, length and size have the shapes {self.enter.shape}, {shape} "
                    f"and {self.size.shape}; they must be (S, J), (S, J) and (S, J, R)"
                ]
            )
        there = self.there
        rules = {
            "a length is negative": bool((self.length < 0).any()),
            "a job follows padding; pad at the end": bool((there[:, 1:] & ~there[:, :-1]).any()),
            "jobs are not in order of arrival": bool(
                ((self.enter[:, 1:] < self.enter[:, :-1]) & there[:, 1:]).any()
            ),
            "a job arrives before step 0": bool((self.enter[there] < 0).any()),
            "a size is negative": bool((self.size < 0).any()),
        }
        if wrong := [f"job sets: {rule}" for rule, broken in rules.items() if broken]:
            raise ScenarioError(wrong)

    def __len__(self) -> int:
        """Return S, the number of sets."""
        return len(self.length)

    @property
    def there(self) -> Bools:
        """(S, J) whether there is a job, not padding."""
        there: Bools = self.length > 0
        return there

    @property
    def jobs(self) -> Ints:
        """(S,) how many jobs each set has."""
        jobs: Ints = self.there.sum(axis=1, dtype=np.int64)
        return jobs

    @classmethod
    def of(cls, workloads: Sequence[Workload], model: Slotted) -> JobSets:
        """Return workloads as job sets, one a row.

        The workload's resources are the model's, in this order. A job is one task without parents;
        its size is the sum over its instances.

        Raises ScenarioError, for all workloads at once, if a job has several tasks or is a bag of
        instances, or if times are not whole steps or requests not whole units: the lock-step
        environment has whole steps only, so it would play another workload.
        """
        rows, problems = [], []
        for number, workload in enumerate(workloads):
            if wrong := _unfit(workload, model):
                problems += [f"job set {number}: {text}" for text in wrong]
            else:
                rows.append(_in_steps(workload, model))
        if problems:
            raise ScenarioError(problems)
        return cls.padded(rows, model.resources)

    @classmethod
    def padded(cls, rows: Sequence[tuple[Ints, Ints, Ints]], resources: int) -> JobSets:
        """Return sets of (J,) steps of arrival, (J,) lengths and (J, R) sizes, one a row."""
        most = max([1, *(len(length) for _, length, _ in rows)])
        sets = cls.empty(len(rows), most, resources)
        for row, (enter, length, size) in enumerate(rows):
            sets.enter[row, : len(enter)] = enter
            sets.length[row, : len(enter)] = length
            sets.size[row, : len(enter)] = size
        return cls(sets.enter, sets.length, sets.size)  # checked with the jobs in place

    @classmethod
    def joined(cls, parts: Sequence[JobSets]) -> JobSets:
        """Return the sets of several, one after another, padded to the longest."""
        most = max(part.length.shape[1] for part in parts)

        def wide(name: str) -> Ints:
            columns = [getattr(part, name) for part in parts]
            ends = [((0, 0), (0, most - c.shape[1])) + ((0, 0),) * (c.ndim - 2) for c in columns]
            return np.concatenate([np.pad(c, e) for c, e in zip(columns, ends, strict=True)])

        return cls(wide("enter"), wide("length"), wide("size"))

    @classmethod
    def empty(cls, sets: int, jobs: int, resources: int) -> JobSets:
        """Return sets that hold only padding."""
        enter, length = np.zeros((2, sets, jobs), np.int64)
        return cls(enter, length, np.zeros((sets, jobs, resources), np.int64))

    def take(self, rows: npt.ArrayLike) -> JobSets:
        """Return some of the sets, in the order of their numbers in `rows`."""
        chosen = np.asarray(rows, np.int64)
        return JobSets(self.enter[chosen], self.length[chosen], self.size[chosen])

    def check_fit(self, model: Slotted) -> None:
        """Raise ScenarioError if some job could never be placed, or resources differ."""
        if self.size.shape[-1] != model.resources:
            raise ScenarioError(
                [
                    f"job sets: jobs ask for {self.size.shape[-1]} resources, the model has "
                    f"{model.resources}; give both the same"
                ]
            )
        longest = model.latest_start(0)
        problems = [
            f"job sets: job {job} of set {row} takes {self.length[row, job]} steps; the horizon of "
            f"{model.horizon} holds at most {longest}, widen it"
            for row, job in np.argwhere(self.length > longest)[:3]
        ]
        problems += [
            f"job sets: job {job} of set {row} asks for {self.size[row, job].tolist()} units of "
            f"{list(model.capacity)}; give the model more or drop the job"
            for row, job in np.argwhere((self.size > model.capacity).any(2) & self.there)[:3]
        ]
        if problems:
            raise ScenarioError(problems)


def _unfit(workload: Workload, model: Slotted) -> list[str]:
    """Return why a workload cannot be expressed in steps and units."""
    if len(workload.resources) != model.resources:
        return [
            f"jobs ask for {', '.join(workload.resources)}, the model has {model.resources} "
            "resources; give both the same"
        ]
    size, step_s = workload.job_request() / _unit(model), float(time_on_grid(model.step_s))
    rules = {
        "a job has several tasks; the slotted model takes jobs of one task": workload.tasks
        != len(workload),
        "a task has parents; the slotted model knows none": len(workload.parent) > 0,
        "a job has a release time or a preceding job, which the slotted model does not know; add "
        "dependencies: ignore to the workload": workload.has_releases,
        "a bag has several instances; the slotted model takes gangs": bool(
            (~workload.gang & (workload.instances > 1)).any()
        ),
        f"a job is not submitted at a multiple of {step_s:g} s": _broken(
            workload.submit_time_s / step_s
        ),
        f"a run time is not a multiple of {step_s:g} s": _broken(
            workload.longest_run_time_s() / step_s
        ),
        "a run time is 0; the slotted model's shortest is a step": bool(
            (workload.longest_run_time_s() == 0).any()
        ),
        "a request is not a whole number of units": _broken(size),
    }
    return [rule for rule, broken in rules.items() if broken]


def _in_steps(workload: Workload, model: Slotted) -> tuple[Ints, Ints, Ints]:
    """Return (J,) steps of arrival, (J,) lengths and (J, R) sizes of a workload that fits."""
    step_s = time_on_grid(model.step_s)
    enter = np.rint(workload.submit_time_s / step_s).astype(np.int64)
    length = np.rint(workload.longest_run_time_s() / step_s).astype(np.int64)
    size = np.rint(workload.job_request() / _unit(model)).astype(np.int64)
    return enter, length, size


def _unit(model: Slotted) -> Floats:
    """Return (R,) the amount of each resource in a unit."""
    return np.array(model.unit or (1.0,) * model.resources)


def _broken(numbers: Floats) -> bool:
    """Return whether some number is not whole, rounding errors aside."""
    return bool((np.abs(numbers - np.rint(numbers)) > 1e-6).any())
