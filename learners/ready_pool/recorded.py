"""Recorded decisions of a ready pool, as learners read them; see `simkit dataset`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from simkit.errors import ScenarioError
from simkit.learners.common.trajectories import Rows, Trajectories
from simkit.learners.ready_pool.source import REWARD, ReadySource
from simkit.learning.dataset.format import Dataset, read_dataset
from simkit.learning.schema import ObservationSchema

__all__ = ["Recorded"]


@dataclass(frozen=True)
class Recorded:
    """Decisions that others took."""

    memory: Trajectories
    """All of them."""
    value_per_hour: float
    """What was paid per hour, in steps of the whole pool."""

    @classmethod
    def read(cls, path: Path, source: ReadySource, discount: float, *, playing: bool) -> Self:
        """Read a dataset.

        Args:
            path: of the file.
            source: of the games of the same pool.
            discount: γ of a step, of the learner's own games.
            playing: whether the learner plays as well, so that both must be paid alike.

        Raises RunError if it cannot be read, ScenarioError, all problems at once, if it is not of
        this pool or, with `playing`, not of the reward of the learner's games.
        """
        data = read_dataset(path)
        if problems := list(_problems(data, source, discount if playing else None)):
            raise ScenarioError([f"learn.arguments.dataset: {path}: {text}" for text in problems])
        acted = data.action >= 0
        paid = data.reward / source.whole_pool
        passed = data.passed_s / source.pool.step_s
        rows = Rows(
            data.observation, data.mask, data.action, paid, passed, data.terminated, known=acted
        )
        return cls(Trajectories.of(rows), float(paid.sum() / max(passed.sum(), 1e-9)))


def _problems(data: Dataset, source: ReadySource, discount: float | None) -> Iterator[str]:
    """Yield why a dataset cannot be learned from."""
    seen = ObservationSchema.from_json(data.facts["observation"])
    yield from (f"{text}; record it again" for text in source.schema.differences(seen))
    if data.mask.shape[1] != source.actions:
        yield (
            f"has {data.mask.shape[1]} actions, and here there are {source.actions}; record it "
            "with the same action_arguments, reject among them"
        )
    told = data.facts["reward"]
    if discount is not None and told != {"reward": REWARD, "arguments": {"discount": discount}}:
        yield (
            f"its reward is {told['reward']} {told['arguments'] or ''}, and online games are paid "
            f"by {REWARD} with a discount of {discount:g}; record it with --reward {REWARD} --env "
            f"reward_arguments.discount={discount:g}"
        )
