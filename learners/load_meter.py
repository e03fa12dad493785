"""A lock-step environment that also measures how loaded its games are, as Sofia does."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simkit.slotted import SlottedView

from .lockstep import Floats, Lockstep


def load(view: SlottedView, capacity: npt.ArrayLike) -> Floats:
    """Return L = Q + M, (…): the share of slots with a task, plus the share of the grid in use.

    Sofia, "Resource management with deep reinforcement learning" (2021), section 4: M is the mean
    over the resources of the units that are held in the steps ahead, over all that there are. So
    L is at most 2, and what waits behind the slots is no part of it.

    Args:
        view: with any leading axes.
        capacity: (R,) units of each resource.
    """
    held: Floats = view.occupied.mean(axis=-2) / np.asarray(capacity)  # (…, R)
    result: Floats = (view.length > 0).mean(axis=-1) + held.mean(axis=-1)
    return result


class MeteredLockstep(Lockstep):
    """A `Lockstep` that notes its games' loads and what one step of them cost.

    Call `meter` before the first decision; what it notes is 0 for games that are over by then.
    """

    last_step: int | None = None
    """The number of the step, from 1, that is looked at by itself."""

    def meter(self, last_step: int) -> None:
        """Begin to note: sums over all steps, and step number `last_step` by itself."""
        games = len(self.decisions)
        self.last_step = last_step
        self.load_sum = np.zeros(games)
        """(N,) the loads of all steps, just before they pass, summed."""
        self.last_load = np.zeros(games)
        """(N,) the load just before the last step passes."""
        self.last_reward = np.zeros(games)
        """(N,) the reward of the last step."""

    def step(self, actions: npt.ArrayLike) -> Floats:
        """See `Lockstep.step`."""
        if self.last_step is None:
            return super().step(actions)
        games, loads = self.active, load(self.view(), self.model.capacity)
        before = self.steps[games]
        rewards = super().step(actions)
        passed = self.steps[games] > before
        self.load_sum[games] += np.where(passed, loads, 0)
        last = passed & (before == self.last_step - 1)
        self.last_load[games[last]] = loads[last]
        self.last_reward[games[last]] = rewards[last]
        return rewards

    def measured(self) -> dict[str, float]:
        """Return what was noted.

        Returns:
            ``load``: mean over all steps of all games; ``last_load`` and ``last_reward``: means
            over all games, those that are over counting as 0.
        """
        return {
            "load": float(self.load_sum.sum() / max(self.steps.sum(), 1)),
            "last_load": float(self.last_load.mean()),
            "last_reward": float(self.last_reward.mean()),
        }
