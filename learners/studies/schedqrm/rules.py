"""Rules that choose among burst classes in lock-step games, to compare learned agents with.

The first three score as the baselines of "SchedQRM" (CCIT 2019) do, which are those of DeepRM's
paper: of the jobs that fit now the best scored one starts. But they see what an agent of classes
sees, one job of each. The others reserve, as an agent may: the best scored job of all is placed as
early as it fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from simkit.agent.actions import Starts
from simkit.agent.burst_classes import ClassView
from simkit.arrays import Floats, Ints
from simkit.learners.lockstep.class_games import view_of
from simkit.learners.lockstep.class_slots import ClassLockstep

__all__ = ["RULES", "Rule"]


@dataclass(frozen=True)
class Rule:
    """A rule that places the job of the highest score first."""

    score: Callable[[ClassView, Floats], Floats]
    """Returns (A, M) scores of (M,) classes by their steps; the lowest of equals wins."""
    starts: Starts

    def choose(self, games: ClassLockstep) -> Ints:
        """Return (A,) actions; a step passes if nothing may be placed."""
        view, count = view_of(games), games.model.slots
        allowed = view.earliest == 0 if self.starts == "now" else view.earliest >= 0
        score = np.where(allowed, self.score(view, np.arange(1.0, count + 1)), -np.inf)
        return np.where(allowed.any(axis=1), score.argmax(axis=1), count)


def _shortest(view: ClassView, steps: Floats) -> Floats:
    return np.broadcast_to(1.0 / steps, view.behind.shape)


def _alignment(view: ClassView, _steps: Floats) -> Floats:
    """Return Σ over the resources of the share asked for times the share that is free now."""
    aligned: Floats = (view.size * (1.0 - view.held[:, :1])).sum(axis=-1)
    return aligned


def _tetris(view: ClassView, steps: Floats) -> Floats:
    """Return the score of `slotted-tetris` with its knob of 0.0005, on a pool of 10 by 10 units."""
    return 0.05 * _alignment(view, steps) + 0.9995 / steps


def _finish(view: ClassView, steps: Floats) -> Floats:
    soonest: Floats = -(view.earliest + steps)
    return soonest


RULES: Final[Mapping[str, Rule]] = {
    "SJF": Rule(_shortest, "now"),
    "Packer": Rule(_alignment, "now"),
    "Tetris": Rule(_tetris, "now"),
    "SJF in order": Rule(_shortest, "ahead"),
    "Tetris in order": Rule(_tetris, "ahead"),
    "earliest finish": Rule(_finish, "ahead"),
}
"""Rules by name."""
