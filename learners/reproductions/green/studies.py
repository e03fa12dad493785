"""What the three reproductions train, and where: all of it stated once.

Sizes are such that two cores do all trainings in some hours; the dissertation trains for days on
GPUs. What is not trained for is marked as not tested on the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from simkit.learners.reproductions.green.circumstances import Circumstances, Power
from simkit.learners.reproductions.green.trainings import Task
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

LATE_LEAVE: Final = Circumstances()
"""Late jobs leave, 120 %, a ready pool of 15."""
PRINTED: Final[Mapping[Power, Circumstances]] = {
    power: Circumstances(load=1.0, ready=5, late="stay", power=power, max_start=12)
    for power in ("full", "wind-sun")
}
"""As the dissertation says: a ready pool of 5, 100 %, and nobody leaves."""
SIZES: Final = (10, 20, 50, 100, 300, 1200)
"""Units at which the agent of many sizes is judged."""
TRAINED_SIZES: Final = (10, 20, 50)
"""Units that it is trained on, side by side."""


@dataclass(frozen=True)
class Size:
    """How much to train and to judge."""

    seeds: int
    """Trainings of each kind."""
    share: float
    """Of the iterations."""
    games: int
    """Replicas of a training."""
    held_out: int
    """Streams of a training's evaluations."""
    streams: int
    """That judge."""
    tuning: int
    """On which θ is chosen."""
    hours: int
    """Of a stream."""
    episodes: int
    """Of a dataset, for each rule."""

    def iterations(self, count: int) -> int:
        """Return so many iterations at this size, at least 2."""
        return max(round(self.share * count), 2)

    def at(self, where: Circumstances) -> Circumstances:
        """Return the same with streams of this size."""
        return Circumstances(**{**vars(where), "hours": self.hours})


FULL: Final = Size(
    seeds=3, share=1.0, games=128, held_out=32, streams=100, tuning=50, hours=2000, episodes=20
)
QUICK: Final = Size(
    seeds=1, share=0.04, games=8, held_out=4, streams=10, tuning=5, hours=200, episodes=2
)


def _task(kind: str, learner: str, where: Circumstances, iterations: int, size: Size, seed: int,
          **arguments: Any) -> Task:  # fmt: skip
    told = {"games": size.games, "held_out_games": size.held_out, **arguments}
    return Task(kind, learner, size.at(where), size.iterations(iterations), told, seed)


def printed(size: Size, power: Power, seed: int) -> Task:
    """Return the training as printed: RARE, whose memory begins with the least left over."""
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
    """Return a training whose limit is a share of the cost of that without one, of the same seed.

    Runs that may reject jobs have the limits of those that may not.
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
"""Data → the rules that were recorded, in equal shares."""


def data_tasks(size: Size, data: str, dataset: str, where: Circumstances, seed: int) -> list[Task]:
    """Return the trainings on a dataset: a clone, offline, and offline with games after it.

    Args:
        size: of all.
        data: one of `MIXES`.
        dataset: its file.
        where: it is from.
        seed: of the trainings.
    """
    found = []
    place = "" if where.ready == LATE_LEAVE.ready else f"-pool{where.ready}"
    for kind, clone, offline, online in (
        ("clone", 20, 0, 0), ("offline", 20, 10, 0), ("launch", 20, 10, 30),
    ):  # fmt: skip
        phases = [size.iterations(count) if count else 0 for count in (clone, offline, online)]
        told = {
            "games": size.games // 2, "held_out_games": size.held_out, "dataset": dataset,
            "clone": phases[0], "offline": phases[1], "updates": 200,
        }  # fmt: skip
        name = f"{kind}-{data}{place}"
        found.append(Task(name, "offline", size.at(where), sum(phases), told, seed))
    return found


def online(size: Size, seed: int) -> Task:
    """Return the training that plays alone, the discrete soft actor-critic."""
    told = {"updates": 200, "games": size.games // 2}
    return _task("online", "offline", LATE_LEAVE, 30, size, seed, **told)


def set_agent(size: Size, seed: int) -> Task:
    """Return the training of PPO on pools of several sizes, which larger ones judge."""
    return _task("sizes", "cocorl", LATE_LEAVE, 150, size, seed, units=list(TRAINED_SIZES))


SMALL_POOL: Final = Circumstances(load=1.0, ready=5)
"""Late jobs leave, 100 %, a ready pool of 5."""


def small_pool(size: Size, seed: int) -> Task:
    """Return the training of PPO with a ready pool of 5, at 100 %."""
    return _task("ppo-pool5", "cocorl", SMALL_POOL, 150, size, seed)
