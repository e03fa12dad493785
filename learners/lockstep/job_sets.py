"""Job sets: many small workloads of a slotted model side by side, as arrays in steps and units.

A learner plays the same few dozen jobs repeatedly, in about a hundred sets at once. A job set is
one row: its jobs in order of arrival, then padding of length 0 if other sets have more jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Ints
from simkit.errors import ScenarioError

__all__ = ["NEVER", "JobSets"]

NEVER: Final = np.iinfo(np.int64).max
"""The step of an arrival that never comes."""


@dataclass(frozen=True)
class JobSets:
    """S job sets of at most J jobs that ask for R resources."""

    enter: Ints
    """(S, J) step in which a job arrives, ascending along a row."""
    length: Ints
    """(S, J) steps that the job takes; 0: padding, at the end of a row."""
    size: Ints
    """(S, J, R) units that the job holds."""
    PADDING: ClassVar[Mapping[str, float]] = {"enter": 0, "length": 0, "size": 0}
    """Name of each array of jobs, (S, J, …) → its padding."""
    OTHERS: ClassVar[tuple[str, ...]] = ()
    """Names of the other arrays, (S, …)."""

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
    def columns(self) -> tuple[str, ...]:
        """Names of all arrays."""
        return (*self.PADDING, *self.OTHERS)

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
        wide = [part.widened(most) for part in parts]
        return cls(*[np.concatenate([getattr(p, name) for p in wide]) for name in cls.PADDING])

    @classmethod
    def empty(cls, sets: int, jobs: int, resources: int) -> JobSets:
        """Return sets that hold only padding."""
        enter, length = np.zeros((2, sets, jobs), np.int64)
        return cls(enter, length, np.zeros((sets, jobs, resources), np.int64))

    def take(self, rows: npt.ArrayLike) -> Self:
        """Return some of the sets, in the order of their numbers in `rows`."""
        chosen = np.asarray(rows, np.int64)
        return self._with(lambda name: getattr(self, name)[chosen], *self.columns)

    def widened(self, jobs: int) -> Self:
        """Return the same with padding up to J = `jobs`, at least as many as there are."""
        ends = ((0, 0), (0, jobs - self.length.shape[1]), (0, 0))

        def wide(name: str) -> npt.NDArray[Any]:
            column = getattr(self, name)
            return np.pad(column, ends[: column.ndim], constant_values=self.PADDING[name])

        return self._with(wide, *self.PADDING) if ends[1][1] else self

    def _with(self, column: Callable[[str], npt.NDArray[Any]], *names: str) -> Self:
        """Return the same with other columns."""
        return replace(self, **{name: column(name) for name in names})

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
