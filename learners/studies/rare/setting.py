"""Circumstances, heuristics and trainings of the comparison with RARE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.learners.studies.green.circumstances import Circumstances, Power
from simkit.learners.studies.green.trainings import LATE_LEAVE, SMALL_POOL, Size, training
from simkit.learners.studies.trainings import KeptTraining
from simkit.training import Workplace

PRINTED: Final[Mapping[Power, Circumstances]] = {
    power: Circumstances(load=1.0, ready=5, late="stay", power=power, max_start=12)
    for power in ("full", "wind-sun")
}
"""The dissertation's circumstances: ready pool of 5, load 100 %; no job leaves."""
JULY: Final = "2019-07-01T00:00:00-06:00"
"""Beginning of the test weather; trainings see the weather from January on."""
SIZES: Final = (10, 20, 50, 100, 300, 1200)
"""Units of the pools on which agents are judged."""
HEURISTICS: Final[Mapping[str, str]] = {
    "fcfs": "FCFS", "sjf": "SJF", "qos": "QoS", "value": "HVF",
}  # fmt: skip
"""The dissertation's heuristics → their labels there; HVF: the highest value first."""


def within_12_h(order: str) -> str:
    """Return the arm of a heuristic whose jobs start within 12 hours of their decision."""
    return f"{order}, within 12 h"


def printed(place: Workplace, size: Size, power: Power, seed: int) -> KeptTraining:
    """Return the training as printed: RARE, whose memory begins with the play of fit12."""
    return training(
        place, size, f"printed-{power}", "rare", PRINTED[power], size.iterations(60), seed,
        teacher="left-over", warm_up=size.iterations(40), discount=0.995, games=size.games // 2,
    )  # fmt: skip


def leaving(place: Workplace, size: Size, seed: int) -> KeptTraining:
    """Return the training of RARE where late jobs leave."""
    iterations, games = size.iterations(60), size.games // 2
    return training(place, size, "rare", "rare", LATE_LEAVE, iterations, seed, games=games)


def small_pool(place: Workplace, size: Size, seed: int) -> KeptTraining:
    """Return the training of PPO with a ready pool of 5, at 100 %."""
    return training(place, size, "ppo-pool5", "cocorl", SMALL_POOL, size.iterations(150), seed)


def several_sizes(place: Workplace, size: Size, seed: int) -> KeptTraining:
    """Return the training of PPO on pools of three sizes side by side, for tests on larger ones."""
    iterations, units = size.iterations(150), [10, 20, 50]
    return training(place, size, "sizes", "cocorl", LATE_LEAVE, iterations, seed, units=units)
