"""Recorded decisions of a ready pool as training data; see `simkit dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Self

from simkit.agent.encoder import ObservationSchema
from simkit.errors import RunError, ScenarioError
from simkit.gym.dataset import Dataset, read_dataset
from simkit.learners.common.replay import Trajectories
from simkit.learners.lockstep.ready_pool.games import REWARD
from simkit.learners.ready_pool.source import ReadySource

__all__ = ["Recorded"]


@dataclass(frozen=True)
class Recorded:
    """Decisions that others took; a part of a checkpoint, which identifies their file."""

    memory: Trajectories
    """All decisions."""
    value_per_hour: float
    """Value paid per hour, in steps of the whole pool."""
    path: Path
    """The dataset's file."""
    digest: str
    """SHA-256 of the file."""

    @classmethod
    def read(cls, path: Path, source: ReadySource, discount: float, *, playing: bool) -> Self:
        """Read a dataset.

        Args:
            path: the dataset's file.
            source: where games of the same pool come from.
            discount: γ per step in the learner's own games.
            playing: whether the learner also plays, so that both must have the same reward.

        Raises RunError if it cannot be read; ScenarioError, all problems at once, if it was
        recorded on another pool or, with `playing`, for another reward.
        """
        data = read_dataset(path)
        if problems := list(_problems(data, source, discount if playing else None)):
            raise ScenarioError([f"learn.arguments.dataset: {path}: {text}" for text in problems])
        paid = data.reward / source.whole_pool
        passed = data.passed_s / source.pool.step_s
        rows = {
            "seen": data.observation, "allowed": data.mask, "actions": data.action,
            "rewards": paid, "passed": passed, "over": data.terminated, "known": data.action >= 0,
        }  # fmt: skip
        per_hour = float(paid.sum() / max(passed.sum(), 1e-9))
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        return cls(Trajectories.of(rows), per_hour, path, digest)

    def state(self) -> dict[str, Any]:
        """Return what identifies the file."""
        return {"digest": self.digest}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Raise RunError unless this is the file that `state` identified."""
        if state["digest"] != self.digest:
            raise RunError(
                f"{self.path}: has changed since the training began; restore the file, or start "
                "the training over"
            )


def _problems(data: Dataset, source: ReadySource, discount: float | None) -> Iterator[str]:
    """Yield why a dataset cannot be learned from."""
    observed = ObservationSchema.from_json(data.facts["observation"])
    yield from (f"{text}; record it again" for text in source.schema.differences(observed))
    yield from _pool_differences(data.facts, source)
    reward, step_s = data.facts["reward"], source.pool.step_s
    wanted = {"discount": discount, "time_unit_s": step_s}
    if discount is not None and reward != {"reward": REWARD, "arguments": wanted}:
        given = ", ".join(f"{name}: {value:g}" for name, value in reward["arguments"].items())
        yield (
            f"its reward is {reward['reward']} {{{given}}}, but online games pay {REWARD} with a "
            f"discount of {discount:g} per step; record it with --reward {REWARD} --env "
            f"reward_arguments.discount={discount:g} --env reward_arguments.time_unit_s={step_s:g}"
        )


def _pool_differences(facts: Mapping[str, Any], source: ReadySource) -> Iterator[str]:
    """Yield how the recorded pool and actions differ from those of the games."""
    given = facts["actions"]["arguments"].get("action_arguments") or {}
    pool, rules = source.pool, source.rules
    wanted = {
        "max_start": (pool.max_start, given.get("max_start", pool.horizon - 1)),
        "reject": (rules["reject"], given.get("reject", False)),
        "suspend": (0, given.get("suspend", 0)),
        "advance": ("no-op", given.get("advance", "no-op")),
    }
    for name, (here, there) in wanted.items():
        if here != there:
            yield (
                f"was recorded with {name} {there}, but here it is {here}; record it with --env "
                f"action_arguments.{name}={str(here).lower()}"
            )
    yield from dict.fromkeys(
        text for scenario in _scenarios(facts) for text in _scenario_differences(scenario, source)
    )


def _scenarios(facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the recorded scenarios; a mix has one for each of its parts."""
    if "scenario" in facts:
        yield facts["scenario"]
    for part in facts.get("mix", ()):
        yield from _scenarios(part)


def _scenario_differences(scenario: Mapping[str, Any], source: ReadySource) -> Iterator[str]:
    late = "leave" if source.late_leave else "stay"
    if scenario["admission"]["late"] != late:
        yield f"was recorded where late jobs {scenario['admission']['late']}, but here they {late}"
    machines = scenario["cluster"].get("machines") or []
    units = tuple(
        round(sum(each["count"] * (each.get(name) or 0) for each in machines))
        for name in source.resources
    )
    if machines and units != source.units:
        there, here = (" and ".join(map(str, each)) for each in (units, source.units))
        yield f"was recorded on a pool of {there} units, but here there are {here}"
