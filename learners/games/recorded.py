"""Recorded decisions as training data, of whatever a learner plays; see `simkit dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from simkit.agent.encoder import ObservationSchema
from simkit.errors import RunError, ScenarioError
from simkit.gym.dataset import Dataset, read_dataset
from simkit.learners.common.off_policy.replay import Trajectories
from simkit.learners.games.job_sets import LockstepSource
from simkit.learners.games.ready_pool import HORIZON, ReadySource
from simkit.learners.games.simulations import SimulatedSource
from simkit.learners.lockstep.ready_pool.games import REWARD

__all__ = ["AnySource", "Recorded"]

AnySource = LockstepSource | SimulatedSource | ReadySource
USUAL: Final[Mapping[str, Mapping[str, Any]]] = {
    "slots": {"mask": "possible"},
    "classes": {"starts": "ahead"},
    "ready-pool": {
        "max_start": HORIZON - 1, "reject": False, "suspend": 0, "advance": "no-op",
    },
}  # fmt: skip
"""Actions → their arguments that a recording may leave out; others follow from the observation."""


@dataclass(frozen=True)
class Recorded:
    """Decisions that others took; a part of a checkpoint, which identifies their file."""

    memory: Trajectories
    """All decisions."""
    mean: float
    """Reward per unit of time; of a ready pool the value paid, in steps of the whole pool."""
    path: Path
    """The dataset's file."""
    digest: str
    """SHA-256 of the file."""

    @classmethod
    def read(cls, path: Path, source: AnySource, discount: float, *, playing: bool) -> Self:
        """Read a dataset.

        Time counts in steps of a ready pool, elsewhere in decisions.

        Args:
            path: the dataset's file.
            source: where games of the same kind come from.
            discount: γ in the learner's own games.
            playing: whether the learner also plays endless games, so that both must have the same
                reward.

        Raises RunError if it cannot be read; ScenarioError, all problems at once, if other things
        were seen or done there than in the source's games or, with `playing`, another reward paid.
        """
        data = read_dataset(path)
        if problems := list(_problems(data, source, discount if playing else None)):
            raise ScenarioError([f"learn.arguments.dataset: {path}: {text}" for text in problems])
        paid, passed, seen = data.reward, np.ones(len(data)), data.observation
        if isinstance(source, ReadySource):
            paid, passed = paid / source.whole_pool, data.passed_s / source.pool.step_s
        elif isinstance(source, SimulatedSource) and source.places is not None:
            seen = seen[:, source.places.order]
        rows = {
            "seen": seen, "allowed": data.mask, "actions": data.action, "rewards": paid,
            "passed": passed, "over": data.terminated, "known": data.action >= 0,
        }  # fmt: skip
        mean = float(paid.sum() / max(passed.sum(), 1e-9))
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        return cls(Trajectories.of(rows), mean, path, digest)

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


def _problems(data: Dataset, source: AnySource, discount: float | None) -> Iterator[str]:
    """Yield why a dataset cannot be learned from."""
    observed = ObservationSchema.from_json(data.facts["observation"])
    yield from (f"{text}; record it again" for text in source.schema.differences(observed))
    yield from _action_differences(data.facts["actions"]["arguments"], source)
    if isinstance(source, ReadySource):
        yield from dict.fromkeys(
            text
            for scenario in _scenarios(data.facts)
            for text in _scenario_differences(scenario, source)
        )
        if discount is not None:
            yield from _reward_differences(data.facts["reward"], source.pool.step_s, discount)


def _action_differences(stated: Mapping[str, Any], source: AnySource) -> Iterator[str]:
    """Yield how the recorded actions differ from those of the source's agents."""
    view = source.describe(source.scorer(1))["view"]
    usual = USUAL.get(view["actions"], {})
    here = {**usual, "actions": view["actions"], **(view["action_arguments"] or {})}
    there = {"actions": stated.get("actions", "start"), **usual}
    there |= stated.get("action_arguments") or {}
    for name in dict.fromkeys(("actions", *(usual or (*here, *there)))):
        mine, theirs = here.get(name), there.get(name)
        if mine != theirs:
            option = "--actions " if name == "actions" else f"--env action_arguments.{name}="
            yield (
                f"was recorded with {name} {theirs}, but here it is {mine}; record it with "
                f"{option}{str(mine).lower()}"
            )


def _reward_differences(reward: Mapping[str, Any], step_s: float, discount: float) -> Iterator[str]:
    """Yield how the recorded reward differs from that of games of a ready pool."""
    if reward == {"reward": REWARD, "arguments": {"discount": discount, "time_unit_s": step_s}}:
        return
    given = ", ".join(f"{name}: {value:g}" for name, value in reward["arguments"].items())
    yield (
        f"its reward is {reward['reward']} {{{given}}}, but online games pay {REWARD} with a "
        f"discount of {discount:g} per step; record it with --reward {REWARD} --env "
        f"reward_arguments.discount={discount:g} --env reward_arguments.time_unit_s={step_s:g}"
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
