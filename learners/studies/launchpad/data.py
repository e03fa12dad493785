"""The data of the study of Launchpad: recorded rules, and mixes of them in equal shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from simkit.arrays import stream
from simkit.gym.dataset import mix
from simkit.gym.record_dataset import Recording, record
from simkit.learners.studies.green.circumstances import Circumstances
from simkit.learners.studies.trainings import in_parallel
from simkit.training import Workplace

MIXES: Final[Mapping[str, tuple[str, ...]]] = {
    "qos": ("qos",), "qos-sjf": ("qos", "sjf"), "combo": ("qos", "sjf", "fcfs", "value"),
}  # fmt: skip
"""Data → the recorded rules, in equal shares."""
_CONTENT: Final[Mapping[str, Any]] = {
    "actions": "ready-pool", "observation": "ready-set", "reward": "value-at-decision",
    "reward_arguments": {"discount": 0.98, "time_unit_s": 3600.0},
}  # fmt: skip
"""The discount of a step is the default of the learner that reads the data."""


@dataclass(frozen=True)
class Data:
    """The decisions of one or more rules under some circumstances, in equal shares."""

    place: Workplace
    """Keeps the files, in its folder ``data``."""
    name: str
    """One of `MIXES`."""
    where: Circumstances

    @property
    def path(self) -> Path:
        """Its file."""
        alone = len(MIXES[self.name]) == 1
        return self._file(f"rule-{self.name}" if alone else f"mix-{self.name}")

    @property
    def recordings(self) -> dict[str, Path]:
        """Its parts: rule → the file of its recording."""
        return {rule: self._file(f"rule-{rule}") for rule in MIXES[self.name]}

    def _file(self, name: str) -> Path:
        return self.place.work / "data" / f"{name}-pool{self.where.ready}.parquet"

    @property
    def decisions(self) -> int:
        """The number of decisions in its file."""
        return int((pl.read_parquet(self.path, columns=["action"])["action"] >= 0).sum())


def seeds_of(rule: str, episodes: int) -> list[int]:
    """Return the seeds of a rule's episodes; no test uses these streams of jobs."""
    rng = stream(0, f"reproduce.green.recorded.{rule}")
    drawn: list[int] = rng.integers(2**31, size=episodes).tolist()
    return drawn


def make(data: Sequence[Data], episodes: int) -> None:
    """Record and mix missing data, with a number of episodes of each rule."""
    place = data[0].place
    (place.work / "data").mkdir(exist_ok=True)
    wanted = {
        path: (some.where, rule, path)
        for some in data
        for rule, path in some.recordings.items()
        if not path.exists()
    }
    for name in in_parallel(place, _record, ((*one, episodes) for one in wanted.values())):
        place.say(f"recorded {name}")
    for some in data:
        if not some.path.exists():
            parts = list(some.recordings.values())
            mix({part: 1.0 / len(parts) for part in parts}, some.path)
            place.say(f"mixed {some.path.stem}")


def _record(where: Circumstances, rule: str, path: Path, episodes: int) -> str:
    """Record a rule under some circumstances, until the hours are over."""
    policy = {"order": rule, "backfill": {"type": "ready-pool", "horizon": 0}}
    scenario = where.scenario(f"recorded-{rule}", policy=policy)
    limits = scenario.limits.model_copy(update={"simulated_time": 3600.0 * where.hours})
    recording = Recording(**{**_CONTENT, "action_arguments": {"max_start": where.max_start}})
    ended = scenario.model_copy(update={"limits": limits})
    record(ended, path, recording, seeds_of(rule, episodes), name=rule)
    return path.stem
