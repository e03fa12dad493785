"""Lock-step games with a slot for each burst class, as SchedQRM lays jobs out.

"SchedQRM" (CCIT 2019): slot k shows the first waiting job of class k; all others wait behind it,
class by class. A job whose slot is chosen is placed at once, as early as it fits.
"""

from __future__ import annotations

from typing import Final, Literal, get_args

import numpy as np

from simkit.agent.slotted import Slotted
from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learners.lockstep import Lockstep
from simkit.learners.lockstep.job_sets import NEVER, JobSets
from simkit.learners.lockstep.layouts import ClassSlots, Slots
from simkit.learners.lockstep.plan import Small

__all__ = ["ClassLockstep", "Reading"]

Reading = Literal["delay", "clock", "decisions"]
"""What c is in the paper's reward -(a + c / a): the steps from a job's arrival to its start; those
that have passed, which only happens by actions that place nothing; or the decisions so far. Of the
first, what passes before a job is placed is charged as it passes: else to let time go on would seem
to be free."""
PENALTY: Final = 210.0
"""What an action costs that chooses a class without a job that fits."""


class ClassLockstep(Lockstep):
    """N games whose jobs are laid out by class; see `Lockstep`.

    Slot k is for jobs that are taken to run for k + 1 steps. A game is over when all its jobs have
    come and have been placed: nothing is left to decide then.
    """

    ends_when_placed = True

    def __init__(
        self,
        model: Slotted,
        job_sets: JobSets,
        replicas: int = 1,
        *,
        taken_for: Ints | None = None,
        reading: Reading = "delay",
        limit: int | None = None,
    ) -> None:
        """Begin all games.

        Args:
            model: the dimensions; as many slots as the longest job has steps.
            job_sets: S sets that it can hold.
            replicas: how many games of each set.
            taken_for: (S, J) steps that each job is taken for, by which it gets its slot and is
                shown, while it runs for its length; None: its length.
            reading: how the reward is computed; see `Reading`.
            limit: the most decisions of a game, whether it is done or not; None: no limit.

        Raises ScenarioError if a job could never be placed or has no class, or for an argument that
        is out of its range.
        """
        if reading not in get_args(Reading):
            raise ScenarioError(
                f"lock-step: reading is {reading!r}; it is one of {', '.join(get_args(Reading))}"
            )
        steps = job_sets.length if taken_for is None else taken_for
        longest = int(steps.max(initial=0))
        if longest > model.slots or (steps[job_sets.there] < 1).any():
            raise ScenarioError(
                f"lock-step: jobs are taken for up to {longest} steps, but there are {model.slots} "
                "classes, from 1 step on; give a class for each number of steps"
            )
        self._kind: Ints = np.where(job_sets.there, steps - 1, -1)
        self._is_guess = taken_for is not None
        self._reading = reading
        super().__init__(model, job_sets, replicas, limit=limit)

    def _new_slots(self, games: int) -> Slots:
        model = self.model
        self.classes = ClassSlots(
            self._kind, self.replicas, model.slots, model.resources, games, self._small
        )
        return self.classes

    def behind(self) -> Ints:
        """Return (A, M) how many jobs of each class wait behind the one that is shown."""
        return self.classes.behind[:-1].T

    def busy(self) -> Bools:
        """Return (A,) whether any job that was placed runs now or later."""
        busy: Bools = self._last_finish > self._now
        return busy

    def earliest(self) -> Ints:
        """Return (A, M) how many steps ahead each slot's job could start, by what it is taken for.

        -1: not within the horizon, or there is none.
        """
        if not self._is_guess:
            return super().earliest()
        length, size = self._slots.shown()
        steps = np.arange(1, self.model.slots + 1, dtype=length.dtype)[:, None]
        return self._plan.earliest(np.where(length > 0, steps, 0).astype(length.dtype), size).T

    def _ahead(self, chosen: Ints, length: Small, size: Small) -> Ints:
        if self._is_guess:
            self._earliest = None  # a job holds what it really takes
        return super()._ahead(chosen, length, size)

    def _rewards(self, chosen: Ints, ahead: Ints) -> Floats:
        """Return (A,) -(a + c / a) for a job of class a that is placed, else 0 or the penalty.

        The void action, number M, costs nothing by itself. By the reading ``delay`` the rewards of
        a game of n jobs add up to minus its sum of slowdowns and classes, plus n.
        """
        a, moved = chosen + 1.0, ahead < 0
        passed = {"delay": ahead, "clock": self.steps, "decisions": self.decisions}[self._reading]
        c = passed if self._reading == "delay" else passed[self.active]
        rewards: Floats = np.where(moved, 0.0, -(a + c / a))
        rewards[moved & (chosen < self.model.slots)] = -PENALTY
        if self._reading == "delay" and moved.any():
            rewards[moved] -= self._waiting_cost()[moved]
        return rewards

    def _waiting_cost(self) -> Floats:
        """Return (A,) the cost of letting a step pass: Σ over the waiting jobs of 1 / class."""
        waiting = (self._slots.length[:-1] > 0) + self.classes.behind[:-1]
        cost: Floats = (1.0 / np.arange(1, self.model.slots + 1)) @ waiting
        return cost

    def done(self, rows: Ints | slice = slice(None)) -> Bools:
        """Return (K,) whether all jobs have come and have been placed."""
        done: Bools = (self._slots.waiting[rows] == 0) & (self._next_enter[rows] == NEVER)
        return done
