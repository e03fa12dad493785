"""The trainings of the three reproductions, and their circumstances.

Their sizes let two cores finish in some hours; the dissertation trains for days on GPUs. The pages
mark claims without a training of ours as not tested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simkit.learners.reproductions.green.circumstances import Circumstances, Power
from simkit.learners.reproductions.green.trainings import Task
from simkit.learners.studies.green.trainings import FULL, LATE_LEAVE, QUICK, SMALL_POOL, Size
from simkit.training import Workplace

__all__ = [
    "FULL",
    "LATE_LEAVE",
    "MIXES",
    "PRINTED",
    "QUICK",
    "SIZES",
    "SMALL_POOL",
    "Size",
    "data_tasks",
    "free",
    "leaving",
    "limited",
    "online",
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


def set_agent(size: Size, seed: int) -> Task:
    """Return the training of PPO on pools of several sizes, for tests on larger ones."""
    return _task("sizes", "cocorl", LATE_LEAVE, 150, size, seed, units=list(TRAINED_SIZES))


def small_pool(size: Size, seed: int) -> Task:
    """Return the training of PPO with a ready pool of 5, at 100 %."""
    return _task("ppo-pool5", "cocorl", SMALL_POOL, 150, size, seed)
