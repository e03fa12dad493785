"""The sizes of the three studies of a ready pool, and how they train.

The sizes let two cores finish in some hours; the dissertation trains for days on GPUs. The pages
mark claims without a training of ours as not tested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.trainings import KeptTraining
from simkit.training import Workplace

LATE_LEAVE: Final = Circumstances()
"""Late jobs leave; load 120 %, ready pool of 15."""
SMALL_POOL: Final = Circumstances(load=1.0, ready=5)
"""Late jobs leave; load 100 %, ready pool of 5."""


@dataclass(frozen=True)
class Size:
    """How much to train and to test."""

    seeds: int
    """Trainings of each kind."""
    share: float
    """Share of the full number of iterations."""
    games: int
    """Replicas in a training."""
    held_out: int
    """Streams in a training's evaluations."""
    streams: int
    """Test streams."""
    tuning: int
    """Streams on which θ is chosen."""
    hours: int
    """Length of a stream."""
    episodes: int
    """Episodes in a dataset, for each rule."""

    def iterations(self, count: int) -> int:
        """Return a full number of iterations scaled to this size, at least 2."""
        return max(round(self.share * count), 2)

    def at(self, where: Circumstances) -> Circumstances:
        """Return the same circumstances with streams of this length."""
        return replace(where, hours=self.hours)


FULL: Final = Size(
    seeds=3, share=1.0, games=128, held_out=32, streams=100, tuning=50, hours=2000, episodes=20
)
QUICK: Final = Size(
    seeds=1, share=0.04, games=8, held_out=4, streams=10, tuning=5, hours=200, episodes=2
)


def training(
    place: Workplace, size: Size, kind: str, learner: str, where: Circumstances, iterations: int,
    seed: int, **arguments: Any,
) -> KeptTraining:  # fmt: skip
    """Return a training, of which the agent of the last iteration is kept.

    Args:
        place: keeps it.
        size: of its games and evaluations; `arguments` may change both.
        kind: the arm of its agents; letters, digits and hyphens.
        learner: name of the learner.
        where: circumstances.
        iterations: how many at this size, see `Size.iterations`.
        seed: seed of the training.
        arguments: of the learner.
    """
    own = size.at(where)
    told = {
        "hours": own.hours, "max_start": own.max_start, "games": size.games,
        "held_out_sets": size.held_out, **arguments,
    }  # fmt: skip
    learn = {
        "learner": learner, "iterations": iterations, "arguments": told, "criterion": "lost_value",
    }  # fmt: skip
    return KeptTraining(place, own.scenario(f"{kind}-seed{seed}", seed=seed, learn=learn))


def free(place: Workplace, size: Size, seed: int, *, reject: bool = False) -> KeptTraining:
    """Return the training of PPO without a limit of its cost."""
    kind, iterations = "ppo-reject" if reject else "ppo", size.iterations(150)
    return training(place, size, kind, "cocorl", LATE_LEAVE, iterations, seed, reject=reject)


def kind_of(one: KeptTraining) -> str:
    """Return what distinguishes a training, apart from its seed."""
    return one.scenario.name.removesuffix(f"-seed{one.scenario.seed}")


def drawn(kind: str) -> str:
    """Return the arm of agents whose actions are drawn; that of their likeliest is the kind."""
    return f"{kind}, drawn"
