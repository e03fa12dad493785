"""The data of `simkit reproduce launchpad`: recorded rules, and mixes of them in equal shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from simkit.arrays import stream
from simkit.gym.dataset import mix
from simkit.gym.record_dataset import Recording, record
from simkit.learners.reproductions.common import in_parallel
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.studies import MIXES
from simkit.scenario import Scenario
from simkit.training import Workplace

__all__ = ["Data", "make", "seeds_of"]

DISCOUNT: Final = 0.98
"""Discount of a step: the default of the learner that reads the data."""
_CONTENT: Final[Mapping[str, Any]] = {
    "actions": "ready-pool", "observation": "ready-set", "reward": "value-at-decision",
    "reward_arguments": {"discount": DISCOUNT, "time_unit_s": 3600.0},
}  # fmt: skip


@dataclass(frozen=True)
class Data:
    """The decisions of one or more rules under some circumstances, in equal shares."""

    name: str
    """One of `MIXES`."""
    where: Circumstances

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules that made the decisions."""
        return MIXES[self.name]

    def path(self, place: Workplace) -> Path:
        """Return its file."""
        parts = self.recordings(place)
        return parts[0].path if len(parts) == 1 else _file(place, f"mix-{self.name}", self.where)

    def recordings(self, place: Workplace) -> list[_Recording]:
        """Return its parts, a recording for each rule."""
        return [
            _Recording(rule, self.where, _file(place, f"rule-{rule}", self.where))
            for rule in self.rules
        ]

    def decisions(self, place: Workplace) -> int:
        """Return the number of decisions in its file."""
        return int(pl.scan_parquet(self.path(place)).filter(pl.col("action") >= 0).select(pl.len())
                   .collect().item())  # fmt: skip


@dataclass(frozen=True)
class _Recording:
    """A recording of one rule."""

    rule: str
    where: Circumstances
    path: Path

    @property
    def scenario(self) -> Scenario:
        """The scenario of the rule under the circumstances, until the hours are over."""
        policy = {"order": self.rule, "backfill": {"type": "ready-pool", "horizon": 0}}
        endless = self.where.scenario(f"recorded-{self.rule}", policy=policy)
        limits = endless.limits.model_copy(update={"simulated_time": 3600.0 * self.where.hours})
        return endless.model_copy(update={"limits": limits})


def _file(place: Workplace, name: str, where: Circumstances) -> Path:
    return place.work / "data" / f"{name}-pool{where.ready}.parquet"


def seeds_of(rule: str, episodes: int) -> list[int]:
    """Return the seeds of a rule's episodes; no test uses these streams of jobs."""
    drawn: list[int] = stream(0, f"reproduce.green.recorded.{rule}").integers(
        2**31, size=episodes
    ).tolist()  # fmt: skip
    return drawn


def make(place: Workplace, data: Sequence[Data], episodes: int) -> None:
    """Record and mix missing data.

    Args:
        place: keeps the files, in its folder ``data``.
        data: what to make.
        episodes: number of episodes of each rule.
    """
    (place.work / "data").mkdir(exist_ok=True)
    wanted = {one.path: one for some in data for one in some.recordings(place)}
    todo = [one for path, one in wanted.items() if not path.exists()]
    for name in in_parallel(place, _record, ((one, episodes) for one in todo)):
        place.say(f"recorded {name}")
    for some in data:
        if not (path := some.path(place)).exists():
            parts = some.recordings(place)
            mix({one.path: 1.0 / len(parts) for one in parts}, path)
            place.say(f"mixed {path.stem}")


def _record(one: _Recording, episodes: int) -> str:
    recording = Recording(**{**_CONTENT, "action_arguments": {"max_start": one.where.max_start}})
    record(one.scenario, one.path, recording, seeds_of(one.rule, episodes), name=one.rule)
    return one.path.stem
