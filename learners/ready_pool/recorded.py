"""Recorded decisions of a ready pool, as learners read them; see `simkit dataset`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Any, Self

from simkit.agent.encoder import ObservationSchema
from simkit.errors import RunError, ScenarioError
from simkit.gym.dataset import Dataset, read_dataset
from simkit.learners.common.trajectories import Rows, Trajectories
from simkit.learners.ready_pool.source import REWARD, ReadySource

__all__ = ["Recorded"]


@dataclass(frozen=True)
class Recorded:
    """Decisions that others took; a part of a checkpoint, which says of which file they are."""

    memory: Trajectories
    """All of them."""
    value_per_hour: float
    """What was paid per hour, in steps of the whole pool."""
    path: Path
    digest: str
    """Of the file."""

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
        per_hour = float(paid.sum() / max(passed.sum(), 1e-9))
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        return cls(Trajectories.of(rows), per_hour, path, digest)

    def state(self) -> dict[str, Any]:
        """Return which file it is."""
        return {"digest": self.digest}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Check that it is the file of `state`; raises RunError if not."""
        if state["digest"] != self.digest:
            raise RunError(
                f"{self.path}: has changed since the training began; restore the file, or start "
                "the training over"
            )


def _problems(data: Dataset, source: ReadySource, discount: float | None) -> Iterator[str]:
    """Yield why a dataset cannot be learned from."""
    seen = ObservationSchema.from_json(data.facts["observation"])
    yield from (f"{text}; record it again" for text in source.schema.differences(seen))
    yield from _other_pool(data.facts, source)
    told, step_s = data.facts["reward"], source.pool.step_s
    wanted = {"discount": discount, "time_unit_s": step_s}
    if discount is not None and told != {"reward": REWARD, "arguments": wanted}:
        given = ", ".join(f"{name}: {value:g}" for name, value in told["arguments"].items())
        yield (
            f"its reward is {told['reward']} {{{given}}}, and online games are paid by {REWARD} "
            f"with a discount of {discount:g} a step; record it with --reward {REWARD} --env "
            f"reward_arguments.discount={discount:g} --env reward_arguments.time_unit_s={step_s:g}"
        )


def _other_pool(facts: Mapping[str, Any], source: ReadySource) -> Iterator[str]:
    """Yield how the pool and the actions that were recorded differ from those of the games."""
    given = facts["actions"]["arguments"].get("action_arguments") or {}
    pool, rules = source.pool, source.rules
    wanted = {
        "max_start": (pool.max_start, given.get("max_start", pool.horizon - 1)),
        "reject": (rules["reject"], given.get("reject", False)),
        "suspend": (rules["suspend"], given.get("suspend", 0)),
        "advance": (rules["advance"], given.get("advance", "no-op")),
    }
    for name, (here, there) in wanted.items():
        if here != there:
            yield (
                f"was recorded with {name} {there}, and here it is {here}; record it with --env "
                f"action_arguments.{name}={str(here).lower()}"
            )
    yield from dict.fromkeys(
        text for scenario in _scenarios(facts) for text in _other_scenario(scenario, source)
    )


def _scenarios(facts: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what was recorded, of all parts of a mix."""
    if "scenario" in facts:
        yield facts["scenario"]
    for part in facts.get("mix", ()):
        yield from _scenarios(part)


def _other_scenario(scenario: Mapping[str, Any], source: ReadySource) -> Iterator[str]:
    late = "leave" if source.late_leave else "stay"
    if scenario["admission"]["late"] != late:
        yield f"was recorded where late jobs {scenario['admission']['late']}, and here they {late}"
    machines = scenario["cluster"].get("machines") or []
    units = tuple(
        round(sum(each["count"] * (each.get(name) or 0) for each in machines))
        for name in source.resources
    )
    if machines and units != source.units:
        there, here = (" and ".join(map(str, each)) for each in (units, source.units))
        yield f"was recorded on a pool of {there} units, and here there are {here}"
