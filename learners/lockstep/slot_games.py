"""Lock-step games as a learner of sets plays them: start a task now, or let a step pass."""

from __future__ import annotations

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.learners.lockstep import Lockstep
from simkit.learning.encoder import Numbers
from simkit.learning.observe_slots import slot_set


class SlotGames:
    """Games of a slotted model, seen as sets of slots; only tasks that fit now may be placed."""

    def __init__(self, lockstep: Lockstep) -> None:
        """Take games that have just begun."""
        self.lockstep = lockstep

    @property
    def active(self) -> Ints:
        """(A,) games that go on."""
        return self.lockstep.active

    @property
    def steps(self) -> Ints:
        """(N,) steps that have passed in each."""
        return self.lockstep.steps

    def observe(self) -> Numbers:
        """Return (A, K) float32; see `slot_set`."""
        games = self.lockstep
        return slot_set(games.view(), games.slot_facts(), games.model)

    def mask(self) -> Bools:
        """Return (A, M + 1): slots whose task fits now, and the void action always."""
        mask = np.ones((len(self.active), self.lockstep.model.actions), np.bool_)
        mask[:, :-1] = self.lockstep.fits_now()
        return mask

    def step(self, actions: Ints) -> Floats:
        """Take (A,) actions; return (A,) rewards."""
        return self.lockstep.step(actions)
