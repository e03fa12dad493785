"""The trainings of the study of CoCoRL: without a limit of the cost, and with several."""

from __future__ import annotations

from typing import Final

import numpy as np

from simkit.learners.studies.green.trainings import LATE_LEAVE, Size, free, training
from simkit.learners.studies.trainings import KeptTraining
from simkit.training import Workplace

HALF: Final = 0.5
"""The limit of most trainings, as a share of the unlimited agent's cost."""
SHARES: Final = (0.35, 0.65, 0.8)
"""Other limits."""


def free_trainings(place: Workplace, size: Size) -> list[KeptTraining]:
    """Return the trainings without a limit; the one that may reject jobs has seed 0 alone."""
    plain = [free(place, size, seed) for seed in range(size.seeds)]
    return [*plain, free(place, size, 0, reject=True)]


def limited_trainings(place: Workplace, size: Size) -> list[KeptTraining]:
    """Return the trainings with a limit, each a share of the free one's cost of the same seed.

    Figure 6.12 compares an integral gain of 0.01 with 1. Trainings that may reject jobs have the
    limits of those that may not.
    """

    def limited(
        kind: str, share: float, seed: int = 0, *, integral: float = 1.0, reject: bool = False
    ) -> KeptTraining:
        return training(
            place, size, kind, "cocorl", LATE_LEAVE, size.iterations(150), seed, reject=reject,
            integral=integral, cost_share=share, cost_of=str(free(place, size, seed).folder),
        )  # fmt: skip

    seeds = range(size.seeds)
    return [
        *(limited("half-of-ppo", HALF, seed) for seed in seeds),
        *(limited("half-of-ppo-slow", HALF, seed, integral=0.01) for seed in seeds),
        *(limited(f"limit-{100 * share:.0f}", share) for share in SHARES),
        limited("half-of-ppo-reject", HALF, reject=True),
    ]


def kept_to_limit(one: KeptTraining) -> dict[str, float]:
    """Return how well a complete training kept to its limit.

    ``limit``: of the mean number of waiting jobs; ``above``: share of iterations above it, with
    drawn or with the likeliest actions; ``late``: the same in the second half.
    """
    metrics = one.curve.drop_nulls("cost")
    cost = np.maximum(metrics["cost"].to_numpy(), metrics["cost_watched"].to_numpy())
    limit = float(metrics["cost_limit"][-1])
    above = np.asarray(cost > limit)
    late = above[len(above) // 2 :]
    return {"limit": limit, "above": float(above.mean()), "late": float(late.mean())}
