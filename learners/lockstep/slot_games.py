"""Lock-step games as learners play them: what is seen of the slots, and what may be chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.agent.actions import Starts
from simkit.agent.observe_slots import slot_set
from simkit.agent.slotted import SlottedView
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.outcome import outcome


class SlotGames:
    """Games of a slotted model, seen as sets of slots."""

    def __init__(self, lockstep: Lockstep, starts: Starts = "now") -> None:
        """Take games that have just begun."""
        self.lockstep, self._starts = lockstep, starts

    @property
    def active(self) -> Ints:
        """(A,) games that go on."""
        return self.lockstep.active

    @property
    def steps(self) -> Ints:
        """(N,) steps that have passed in each."""
        return self.lockstep.steps

    @property
    def cut(self) -> Bools:
        """(N,) whether each episode was cut off before its end."""
        return self.lockstep.cut

    def waiting(self) -> Ints:
        """Return (A,) how many jobs wait."""
        return self.lockstep.waiting()

    def observe(self) -> npt.NDArray[Any]:
        """Return (A, K) float32; see `slot_set`."""
        games = self.lockstep
        return slot_set(games.view(), games.slot_facts(), games.model)

    def mask(self) -> Bools:
        """Return (A, M + 1): slots whose task may start, and whether a step may pass."""
        if self._starts == "ahead":
            mask = self.lockstep.mask()
            mask[:, -1] = ~mask[:, :-1].any(axis=1)
            return mask
        mask = np.ones((len(self.active), self.lockstep.model.actions), np.bool_)
        mask[:, :-1] = self.lockstep.fits_now()
        return mask

    def step(self, actions: Ints) -> Floats:
        """Take (A,) actions; return (A,) rewards."""
        return self.lockstep.step(actions)

    def outcome(self) -> Mapping[str, float]:
        """Return how the jobs fared; see `outcome`."""
        return outcome(self.lockstep)


class ObservedGames(SlotGames):
    """Games seen by another observation; any action may be taken, or those that do something."""

    def __init__(
        self,
        lockstep: Lockstep,
        observe: Callable[[SlottedView], npt.NDArray[Any]],
        *,
        masked: bool,
    ) -> None:
        """Take games that have just begun.

        Args:
            lockstep: the games.
            observe: returns (A, F) of what the active games see.
            masked: whether actions that would do nothing are ruled out, the void action aside.
        """
        super().__init__(lockstep)
        self._observe, self._masked = observe, masked

    def observe(self) -> npt.NDArray[Any]:
        return self._observe(self.lockstep.view())

    def mask(self) -> Bools:
        if self._masked:
            return self.lockstep.mask()
        return np.ones((len(self.active), self.lockstep.model.actions), np.bool_)
