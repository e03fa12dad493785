"""The trainings of the study of CoCoRL: without a limit of the cost, and with several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from simkit.learners.studies.green.trainings import LATE_LEAVE, Size, free, training
from simkit.learners.studies.trainings import KeptTraining
from simkit.training import Workplace

__all__ = ["SHARES", "free_trainings", "kept_to_limit", "limited", "limited_trainings"]

HALF: Final = 0.5
"""The limit of most trainings, as a share of the unlimited agent's cost."""
SHARES: Final = (0.35, 0.65, 0.8)
"""Other limits."""
SLOW: Final = 0.01
"""The integral gain that figure 6.12 compares with 1."""


def limited(
    place: Workplace, size: Size, share: float, seed: int, *, integral: float = 1.0,
    reject: bool = False,
) -> KeptTraining:  # fmt: skip
    """Return a training limited to a share of the unlimited training's cost, with the same seed.

    Trainings that may reject jobs have the limits of those that may not.
    """
    words = ["half-of-ppo" if share == HALF else f"limit-{round(100 * share)}"]
    words += ["slow"] if integral != 1.0 else []
    words += ["reject"] if reject else []
    return training(
        place, size, "-".join(words), "cocorl", LATE_LEAVE, size.iterations(150), seed,
        reject=reject, integral=integral, cost_share=share,
        cost_of=str(free(place, size, seed).folder),
    )  # fmt: skip


def free_trainings(place: Workplace, size: Size) -> list[KeptTraining]:
    """Return the trainings without a limit; the one that may reject jobs has seed 0 alone."""
    plain = [free(place, size, seed) for seed in range(size.seeds)]
    return [*plain, free(place, size, 0, reject=True)]


def limited_trainings(place: Workplace, size: Size) -> list[KeptTraining]:
    """Return the trainings with a limit, which read the costs of `free_trainings`."""
    return [
        *(limited(place, size, HALF, seed) for seed in range(size.seeds)),
        *(limited(place, size, HALF, seed, integral=SLOW) for seed in range(size.seeds)),
        *(limited(place, size, share, 0) for share in SHARES),
        limited(place, size, HALF, 0, reject=True),
    ]


def kept_to_limit(one: KeptTraining) -> Mapping[str, Any]:
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
