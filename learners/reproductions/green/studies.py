"""The trainings of the two pages that are not ported yet.

Their sizes let two cores finish in some hours; the dissertation trains for days on GPUs. The pages
mark claims without a training of ours as not tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.trainings import Task
from simkit.learners.studies.green.trainings import FULL, LATE_LEAVE, QUICK, SMALL_POOL, Size
from simkit.training import Workplace

__all__ = [
    "FULL",
    "LATE_LEAVE",
    "MIXES",
    "QUICK",
    "SMALL_POOL",
    "Size",
    "data_tasks",
    "free",
    "limited",
    "online",
]


def _task(kind: str, learner: str, where: Circumstances, iterations: int, size: Size, seed: int,
          **arguments: Any) -> Task:  # fmt: skip
    chosen = {"games": size.games, "held_out_sets": size.held_out, **arguments}
    return Task(kind, learner, size.at(where), size.iterations(iterations), chosen, seed)


def free(size: Size, seed: int, *, reject: bool = False) -> Task:
    """Return the training of PPO without a limit."""
    kind = "ppo-reject" if reject else "ppo"
    return _task(kind, "cocorl", LATE_LEAVE, 150, size, seed, reject=reject)


def limited(
    place: Workplace, size: Size, share: float, seed: int, *, integral: float = 1.0,
    reject: bool = False,
) -> Task:  # fmt: skip
    """Return a training limited to a share of the unlimited training's cost, with the same seed.

    Trainings that may reject jobs have the limits of those that may not.
    """
    words = ["half-of-ppo" if share == 0.5 else f"limit-{round(100 * share)}"]
    words += ["slow"] if integral != 1.0 else []
    words += ["reject"] if reject else []
    return _task(
        "-".join(words), "cocorl", LATE_LEAVE, 150, size, seed, reject=reject,
        integral=integral, cost_share=share, cost_of=str(free(size, seed).folder(place)),
    )  # fmt: skip


MIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "qos": ("qos",),
    "qos-sjf": ("qos", "sjf"),
    "combo": ("qos", "sjf", "fcfs", "value"),
}
"""Data → the recorded rules, in equal shares."""


def data_tasks(size: Size, data: str, dataset: str, where: Circumstances, seed: int) -> list[Task]:
    """Return the trainings on a dataset: a clone, offline, and offline followed by games.

    Args:
        size: size of the trainings.
        data: one of `MIXES`.
        dataset: its file.
        where: its circumstances.
        seed: seed of the trainings.
    """
    found = []
    place = "" if where.ready == LATE_LEAVE.ready else f"-pool{where.ready}"
    for kind, clone, offline, online in (
        ("clone", 20, 0, 0), ("offline", 20, 10, 0), ("launch", 20, 10, 30),
    ):  # fmt: skip
        phases = [size.iterations(count) if count else 0 for count in (clone, offline, online)]
        arguments = {
            "games": size.games // 2, "held_out_sets": size.held_out, "dataset": dataset,
            "clone": phases[0], "offline": phases[1], "updates": 200,
        }  # fmt: skip
        name = f"{kind}-{data}{place}"
        found.append(Task(name, "offline", size.at(where), sum(phases), arguments, seed))
    return found


def online(size: Size, seed: int) -> Task:
    """Return the training by games alone, a discrete soft actor-critic."""
    return _task(
        "online", "offline", LATE_LEAVE, 30, size, seed, updates=200, games=size.games // 2
    )
