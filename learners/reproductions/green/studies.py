"""The trainings of the reproduction of RARE, and their circumstances.

Their sizes let two cores finish in some hours; the dissertation trains for days on GPUs. The page
marks claims without a training of ours as not tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.learners.reproductions.green.circumstances import Circumstances, Power
from simkit.learners.reproductions.green.trainings import Task
from simkit.learners.studies.green.trainings import FULL, LATE_LEAVE, QUICK, SMALL_POOL, Size

__all__ = [
    "FULL",
    "LATE_LEAVE",
    "PRINTED",
    "QUICK",
    "SIZES",
    "SMALL_POOL",
    "Size",
    "free",
    "leaving",
    "printed",
    "set_agent",
    "small_pool",
]

PRINTED: Final[Mapping[Power, Circumstances]] = {
    power: Circumstances(load=1.0, ready=5, late="stay", power=power, max_start=12)
    for power in ("full", "wind-sun")
}
"""The dissertation's circumstances: ready pool of 5, load 100 %; no job leaves."""
SIZES: Final = (10, 20, 50, 100, 300, 1200)
"""Units of the pools on which the agent of several sizes is tested."""
TRAINED_SIZES: Final = (10, 20, 50)
"""Units of the pools on which it is trained, side by side."""


def _task(kind: str, learner: str, where: Circumstances, iterations: int, size: Size, seed: int,
          **arguments: Any) -> Task:  # fmt: skip
    chosen = {"games": size.games, "held_out_sets": size.held_out, **arguments}
    return Task(kind, learner, size.at(where), size.iterations(iterations), chosen, seed)


def printed(size: Size, power: Power, seed: int) -> Task:
    """Return the training as printed: RARE, whose memory begins with the play of fit12."""
    return _task(
        f"printed-{power}", "rare", PRINTED[power], 60, size, seed, teacher="left-over",
        warm_up=size.iterations(40), discount=0.995, games=size.games // 2,
    )  # fmt: skip


def leaving(size: Size, learner: str, seed: int) -> Task:
    """Return the training of PPO or RARE where late jobs leave."""
    if learner == "cocorl":
        return free(size, seed)
    return _task("rare", "rare", LATE_LEAVE, 60, size, seed, games=size.games // 2)


def free(size: Size, seed: int, *, reject: bool = False) -> Task:
    """Return the training of PPO without a limit."""
    kind = "ppo-reject" if reject else "ppo"
    return _task(kind, "cocorl", LATE_LEAVE, 150, size, seed, reject=reject)


def set_agent(size: Size, seed: int) -> Task:
    """Return the training of PPO on pools of several sizes, for tests on larger ones."""
    return _task("sizes", "cocorl", LATE_LEAVE, 150, size, seed, units=list(TRAINED_SIZES))


def small_pool(size: Size, seed: int) -> Task:
    """Return the training of PPO with a ready pool of 5, at 100 %."""
    return _task("ppo-pool5", "cocorl", SMALL_POOL, 150, size, seed)
