"""The trainings of the study of Launchpad: on recorded rules, in games, and on both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from simkit.learners.studies.green.trainings import LATE_LEAVE, Size, training
from simkit.learners.studies.launchpad.data import Data
from simkit.learners.studies.trainings import KeptTraining
from simkit.training import Workplace

KINDS: Final[Mapping[str, tuple[int, int, int]]] = {
    "clone": (20, 0, 0), "offline": (20, 10, 0), "launch": (20, 10, 30),
}  # fmt: skip
"""Kind → iterations of cloning, offline and of games."""


def _updates(size: Size) -> int:
    """Return the updates in an iteration: 200, and fewer in a small version."""
    return max(round(200 * min(10 * size.share, 1.0)), 2)


def data_trainings(place: Workplace, size: Size, data: Data, seed: int) -> list[KeptTraining]:
    """Return the trainings on a dataset: a clone, offline, and offline followed by games."""
    found, where = [], data.where
    pool = "" if where.ready == LATE_LEAVE.ready else f"-pool{where.ready}"
    for kind, phases in KINDS.items():
        clone, offline, games = (size.iterations(count) if count else 0 for count in phases)
        name, iterations = f"{kind}-{data.name}{pool}", clone + offline + games
        found.append(training(
            place, size, name, "offline", where, iterations, seed, games=size.games // 2,
            dataset=str(data.path), clone=clone, offline=offline,
            updates=_updates(size),
        ))  # fmt: skip
    return found


def online(place: Workplace, size: Size, seed: int) -> KeptTraining:
    """Return the training by games alone, a discrete soft actor-critic."""
    return training(
        place, size, "online", "offline", LATE_LEAVE, size.iterations(30), seed,
        updates=_updates(size), games=size.games // 2,
    )  # fmt: skip
