"""Lock-step games of numbered slots as learners play them: what is seen, what may be chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from simkit.agent.actions import SlotMask
from simkit.agent.observe_slots import SLOT_ENCODERS
from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import Lockstep, MeteredLockstep
from simkit.learners.lockstep.outcome import outcome

__all__ = ["LockstepGames", "SlotGames", "observer", "shortest_first"]


def observer(observation: str, model: Slotted) -> Callable[[Lockstep], npt.NDArray[Any]]:
    """Return a function: games → (A, K) what is seen, as the first layer of a network reads it.

    That is the numbers of the observation, but ``deeprm-image`` is read as rows of tables, see
    `simkit.learners.networks.image_layer`.
    """
    if observation == "deeprm-image":
        from simkit.learners.networks.image_layer import TableLayout  # which needs torch

        rows = TableLayout(model).rows
        return lambda games: rows(games.view())
    encoder = SLOT_ENCODERS[observation]
    size = encoder.schema_of(model).size
    return lambda games: encoder.numbers_of(games.view(), model, games.slot_facts).reshape(-1, size)


class LockstepGames:
    """Games in lock-step as learners play them; see `Games`."""

    lockstep: Lockstep
    """The games."""

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

    def step(self, actions: Ints) -> Floats:
        """Take (A,) actions; return (A,) rewards."""
        return self.lockstep.step(actions)

    def outcome(self) -> Mapping[str, float]:
        """Return how the jobs fared, see `outcome`, and what was measured, if anything was."""
        games = self.lockstep
        return outcome(games) | (games.measured() if isinstance(games, MeteredLockstep) else {})


class SlotGames(LockstepGames):
    """Games of a slotted model with numbered slots."""

    def __init__(
        self, lockstep: Lockstep, mask: SlotMask = "now", observation: str = "slot-set"
    ) -> None:
        """Take games that have just begun; `observation` is one of `SLOT_ENCODERS`."""
        self.lockstep, self._mask = lockstep, mask
        self._observe = observer(observation, lockstep.model)

    def observe(self) -> npt.NDArray[Any]:
        """Return (A, K); see `observer`."""
        return self._observe(self.lockstep)

    def mask(self) -> Bools:
        """Return (A, M + 1) which slots may be chosen, and whether a step may pass."""
        if self._mask == "possible":
            return self.lockstep.mask()
        if self._mask == "ahead":
            mask = self.lockstep.mask()
            mask[:, -1] = ~mask[:, :-1].any(axis=1)
            return mask
        mask = np.ones((len(self.active), self.lockstep.model.actions), np.bool_)
        if self._mask == "now":
            mask[:, :-1] = self.lockstep.fits_now()
        return mask


def shortest_first(games: SlotGames) -> Ints:
    """Return (A,) actions of shortest-job-first, which only places tasks that fit now.

    Among equally short tasks it takes that in the lowest slot; if none fits, the void action.
    """
    unfit, lockstep = np.iinfo(np.int64).max, games.lockstep
    length = np.where(lockstep.fits_now(), lockstep.view().length.astype(np.int64), unfit)
    slot = length.argmin(axis=1)
    none_fits = np.take_along_axis(length, slot[:, None], 1)[:, 0] == unfit
    return np.where(none_fits, lockstep.model.slots, slot)
