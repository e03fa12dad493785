"""Games of burst classes as learners and rules play them: what is seen, and what may be chosen."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from simkit.agent.actions import Starts
from simkit.agent.burst_classes import ClassView, class_set, classes_paper
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep.class_slots import ClassLockstep
from simkit.learners.lockstep.slot_games import LockstepGames

__all__ = ["ClassGames", "ClassMask", "potential", "view_of"]

ClassMask = Literal["none", "possible"]
"""Any class may be chosen, or only classes with a waiting job that fits."""


def view_of(games: ClassLockstep) -> ClassView:
    """Return what the active games show, with A as the leading axis."""
    view, capacity = games.view(), np.array(games.model.capacity, np.float64)
    return ClassView(
        held=view.occupied / capacity,
        there=(view.length > 0).astype(np.int64),
        size=view.size / capacity,
        behind=games.behind(),
        earliest=games.earliest(),
    )


class ClassGames(LockstepGames):
    """Games of burst classes with an observation, a mask and, if it is wanted, a shaped reward."""

    lockstep: ClassLockstep

    def __init__(
        self,
        lockstep: ClassLockstep,
        starts: Starts = "ahead",
        mask: ClassMask = "possible",
        *,
        patience: int = 0,
        paper: bool = False,
        shaped: bool = False,
    ) -> None:
        """Take games that have just begun.

        Args:
            lockstep: the games.
            starts: ``ahead``: a job is placed as early as it fits, and a step passes only if none
                fits; ``now``: only those that fit now may be chosen, or a step passes.
            mask: which classes may be chosen; ``none`` is for ``ahead`` alone.
            patience: steps in a row that may pass while nothing runs and a job fits, so that no
                game stands still.
            paper: whether the observation is the paper's, else `class_set`.
            shaped: whether rewards have the growth of `potential` added.
        """
        self.lockstep, self._starts, self._mask = lockstep, starts, mask
        self._patience, self._still = patience, np.zeros(len(lockstep.steps), np.int64)
        self._observe = classes_paper if paper else class_set
        self._potential = potential(lockstep) if shaped else None

    @property
    def steps(self) -> Ints:
        """(N,) steps that have passed in each, and decisions while none passes."""
        games = self.lockstep
        return games.decisions if self._starts == "ahead" else games.steps

    def observe(self) -> npt.NDArray[Any]:
        """Return (A, K) float32."""
        return self._observe(view_of(self.lockstep), self.lockstep.model)

    def mask(self) -> Bools:
        """Return (A, M + 1): which classes may be chosen, and whether a step may pass."""
        games = self.lockstep
        mask = np.ones((len(games.active), games.model.actions), np.bool_)
        if self._mask == "none":
            mask[:, -1] = False
        elif self._starts == "now":
            mask[:, :-1] = games.fits_now()
            mask[:, -1] = (self._still[games.active] < self._patience) | ~self._stands_still()
        else:
            mask[:, :-1] = games.earliest() >= 0
            mask[:, -1] = ~mask[:, :-1].any(axis=1)
        return mask

    def _stands_still(self) -> Bools:
        """Return (A,) whether nothing runs though a job fits."""
        still: Bools = ~self.lockstep.busy() & self.lockstep.fits_now().any(axis=1)
        return still

    def step(self, actions: Ints) -> Floats:
        """Take (A,) actions; return (A,) rewards."""
        games, before = self.lockstep, self.lockstep.active
        if self._starts == "now":
            waits = (np.asarray(actions) == games.model.slots) & self._stands_still()
            self._still[before] = np.where(waits, self._still[before] + 1, 0)
        rewards = games.step(actions)
        if self._potential is None:
            return rewards
        goes_on = np.isin(before, games.active)
        after = np.where(games.cut[before], self._potential, 0.0)  # what was left is not done
        after[goes_on] = potential(games)
        rewards = rewards + after - self._potential
        self._potential = after[goes_on]
        return rewards


_LONGER, _SHORTER, _OWN, _FILL, _START = 1.3, 0.66, 0.33, 1.15, 0.4
"""Fitted to the returns of shortest-first from states that it meets."""


def potential(games: ClassLockstep) -> Floats:
    """Return (A,) about what the rewards to come will add up to, by the reading ``delay``.

    Each waiting job of class T will cost T. The mean one waits for what is held already, and for
    the shorter ones and those of its own class, and costs a T-th of its wait. Differences of such
    a function may be added to rewards without changing which policy is best (A. Y. Ng, D. Harada
    and S. Russell, "Policy invariance under reward transformations", 1999), as it is 0 at the end.
    """
    model, view = games.model, games.view()
    steps = np.arange(1, model.slots + 1)
    waiting = (view.length > 0) + games.behind()
    area = (view.occupied.sum(axis=1) / np.array(model.capacity)).max(axis=1)
    work = waiting * steps
    shorter = work.cumsum(axis=1) - work
    begins = _FILL * area[:, None] + _SHORTER * shorter
    begins += _OWN * steps * np.maximum(waiting - 1, 0)
    delay = np.maximum(begins - _START * steps, 0.0)
    total: Floats = -(work + _LONGER * waiting * delay / steps).sum(axis=1)
    return total
