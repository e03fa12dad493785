"""Replicas: games that are played together, which of them go on, and how they begin and end.

Think of an arcade with a game in every cabinet: all games wait for their player, all take one
action, and a cabinet whose game is over is switched off. In endless play its player inserts another
coin, so that all go on.

What is free ahead is a `Plan`, where jobs wait is a layout (see `layouts`); who plays knows the
rules, and what a step pays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from simkit.arrays import Bools, Ints
from simkit.errors import PolicyError
from simkit.learners.lockstep.job_sets import NEVER, JobSets
from simkit.learners.lockstep.layouts import Slots
from simkit.learners.lockstep.plan import Plan, Small
from simkit.learners.lockstep.replicated import Replicated
from simkit.traces.models.synthetic import DrawnSets

__all__ = ["Replicas"]

Sets = TypeVar("Sets", bound=JobSets)


class Replicas(Replicated, ABC, Generic[Sets]):
    """N = S * replicas games; game n plays set n // replicas of S sets of jobs.

    What comes of them is in arrays of all N games, whatever the state of a game. Everything else is
    known of the A active ones alone.
    """

    active: Ints
    """(A,) replicas whose game goes on, ascending."""
    start: Ints
    """(N, J) start step of each job, possibly in the future; -1: not placed."""
    decisions: Ints
    """(N,) actions taken so far."""
    steps: Ints
    """(N,) steps that have passed so far."""
    cut: Bools
    """(N,) whether a game was cut off before its end."""
    over: Bools
    """(N,) in endless play: whether the last step ended the game."""
    OF_GAMES: ClassVar[Mapping[str, float]] = {"decisions": 0, "steps": 0, "cut": False}
    """Name of each array of all games → the number it begins with."""
    OF_JOBS: ClassVar[Mapping[str, int]] = {"start": -1}
    """Name of each array of all games' jobs → the number it begins with."""
    STATE: ClassVar = {"active": None, "_set": None, "_next": 0, "_now": None, "_next_enter": None}
    who: ClassVar = "lock-step"
    """Whose actions they are, for messages."""

    def __init__(
        self, sets: Sets, replicas: int, actions: int, limit: int | None, *, endless: bool = False
    ) -> None:
        """Take the jobs; `_begin` begins the games.

        Args:
            sets: S of them.
            replicas: how many games of each set; 1 in endless play.
            actions: how many there are; the last lets a step pass.
            limit: decisions after which a game is over, done or not; None: no limit.
            endless: whether games that are over stay, and may be begun again.
        """
        self.sets, self.replicas, self.limit, self.count = sets, replicas, limit, actions
        self.endless = endless
        self._enter = _arrivals(sets)

    def _begin(self, slots: Slots, plan: Plan) -> None:
        """Begin all games, with nobody in the slots and nothing in the plan."""
        games, jobs = len(self.sets) * self.replicas, self._enter.shape[1] - 1
        for name, blank in self.OF_GAMES.items():
            setattr(self, name, np.full(games, blank))
        for name, number in self.OF_JOBS.items():
            setattr(self, name, np.full((games, jobs), number))
        self.over = np.zeros(games, np.bool_)
        self.active = np.arange(games)
        self._set = self.active // self.replicas
        self._next = np.zeros(games, np.int64)  # the job that arrives next
        self._now = self._enter[self._set, 0]
        self._next_enter = self._now.copy()
        self._slots, self._plan = slots, plan

    def waiting(self) -> Ints:
        """Return (A,) how many jobs wait, in sight or behind."""
        return self._slots.waiting

    # ---- actions --------------------------------------------------------------------------------

    def checked(self, actions: npt.ArrayLike, ignored: Bools | None = None) -> Ints:
        """Return (A,) actions that `step` takes, without taking them.

        Args:
            actions: (A,) whole numbers from 0 to M.
            ignored: (A,) replicas whose number is replaced by M, whatever it is; None: nobody's.

        Raises PolicyError if actions are not of this shape, or out of their range.
        """
        last, chosen = self.count - 1, self._whole_numbers(actions)
        some = chosen if ignored is None else chosen[~ignored]
        if some.size and not 0 <= some.min() <= some.max() <= last:
            raise PolicyError(
                f"{self.who}: actions range from {some.min()} to {some.max()}; they are 0 to "
                f"{last}, and {last} lets a step pass"
            )
        numbers: Ints = chosen.astype(np.int64, copy=False)
        return numbers if ignored is None else np.where(ignored, last, numbers)

    def _whole_numbers(self, actions: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return actions as whole numbers of any width; raises PolicyError for others."""
        count = len(self.active)
        try:
            chosen = np.asarray(actions)
        except ValueError as error:
            raise PolicyError(
                f"{self.who}: actions are {actions!r}, which is no array; give one whole number "
                f"for each of the {count} active replicas"
            ) from error
        if chosen.shape != (count,) or chosen.dtype.kind not in "iu":
            raise PolicyError(
                f"{self.who}: actions are {chosen.dtype} of shape {chosen.shape}; give one whole "
                f"number for each of the {count} active replicas"
            )
        return chosen

    # ---- arrivals -------------------------------------------------------------------------------

    def _arrive(self, rows: Ints) -> None:
        """Let the jobs that arrive now come to some replicas: in sight, behind, or not at all."""
        while len(rows := rows[self._next_enter[rows] == self._now[rows]]):
            sets, job = self._set[rows], self._next[rows]
            self._next[rows] += 1
            self._next_enter[rows] = self._enter[sets, self._next[rows]]
            length, size = self.sets.length[sets, job], self.sets.size[sets, job].T
            admitted = self._slots.admit(rows, self.active[rows], job, length, size)
            self._arrived(rows, sets, job, admitted)

    def _arrived(self, rows: Ints, sets: Ints, job: Ints, admitted: Bools) -> None:
        """Note that a job has come to (K,) replicas, and whether it was admitted."""

    # ---- ends -----------------------------------------------------------------------------------

    @abstractmethod
    def done(self, rows: Ints | slice = slice(None)) -> Bools:
        """Return (K,) whether some games have reached their end."""

    def _over(self, rows: Ints | slice) -> Bools:
        """Return (K,) whether some games are done, or are cut off at the limit."""
        over = self.done(rows)
        if self.limit is not None:
            over |= self.decisions[self.active[rows]] >= self.limit
        return over

    def _close(self) -> None:
        """Switch off the games that are over, or note which are in endless play."""
        over = self._over(slice(None))
        if self.endless:
            self.over = over
        elif over.any():
            self.cut[self.active] = over & ~self.done()
            self.keep(~over)

    def keep(self, kept: Bools) -> None:
        super().keep(kept)
        self._slots.keep(kept)
        self._plan.keep(kept)

    # ---- endless play ---------------------------------------------------------------------------

    def restart(self, replicas: Ints, fresh: JobSets | DrawnSets, units: Ints | Small) -> None:
        """Begin another game in (K,) replicas of endless play.

        Args:
            replicas: their numbers.
            fresh: K sets of J jobs that fit, one for each.
            units: (H, R, K) units that are free in the steps ahead.
        """
        for name in self.sets.columns:
            getattr(self.sets, name)[replicas] = getattr(fresh, name)
        self._enter[replicas, :-1] = np.where(fresh.length > 0, fresh.enter, NEVER)
        for names in (self.OF_GAMES, self.OF_JOBS):
            for name, number in names.items():
                getattr(self, name)[replicas] = number
        self.clear(replicas)
        self._slots.clear(replicas)
        self._plan.begin(replicas, units)
        self._now[replicas] = self._next_enter[replicas] = self._enter[replicas, 0]

    def state(self) -> dict[str, Any]:
        """Return all that endless play knows, as arrays; see `restore`."""
        mine = (*self.STATE, *self.OF_GAMES, *self.OF_JOBS)
        found = {name: getattr(self, name) for name in mine}
        found |= {f"sets.{name}": getattr(self.sets, name) for name in self.sets.columns}
        for part, of in (("slots", self._slots), ("plan", self._plan)):
            found |= {f"{part}.{name}": array for name, array in of.state().items()}
        return found

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as when `state` was called."""
        for name in (*self.STATE, *self.OF_GAMES, *self.OF_JOBS):
            setattr(self, name, np.array(state[name]))
        columns: dict[str, Any] = {n: np.array(state[f"sets.{n}"]) for n in self.sets.columns}
        self.sets = replace(self.sets, **columns)
        self._enter = _arrivals(self.sets)
        for part, of in (("slots.", self._slots), ("plan.", self._plan)):
            of.restore({k.removeprefix(part): v for k, v in state.items() if k.startswith(part)})


def _arrivals(sets: JobSets) -> Ints:
    """Return (S, J + 1) the step in which each job arrives; `NEVER` where there is none."""
    never = np.full((len(sets), 1), NEVER)
    return np.concatenate((np.where(sets.there, sets.enter, NEVER), never), axis=1)
