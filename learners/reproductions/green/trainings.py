"""Trainings of a green datacenter's reproductions: a learner somewhere, with a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simkit.learners.reproductions.common import train_in, wall_time_s
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.reproductions.green.judge import Candidate, agent
from simkit.scenario import Scenario
from simkit.training import Workplace

__all__ = ["Task", "agents", "minutes", "train"]


@dataclass(frozen=True)
class Task:
    """A training."""

    kind: str
    """Names it, with its seed; letters, digits and hyphens."""
    learner: str
    where: Circumstances
    iterations: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the learner, beside the hours of a game."""
    seed: int = 0

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.kind}-seed{self.seed}"

    def folder(self, place: Workplace) -> Path:
        """Return its folder."""
        return place.work / "trainings" / self.name

    def scenario(self) -> Scenario:
        """Return its scenario; the agent of the last iteration is kept."""
        told = {"hours": self.where.hours, "max_start": self.where.max_start, **self.arguments}
        learn = {
            "learner": self.learner, "iterations": self.iterations, "arguments": told,
            "criterion": "lost_value",
        }  # fmt: skip
        return self.where.scenario(self.name, seed=self.seed, learn=learn)


def train(place: Workplace, tasks: Iterable[Task]) -> None:
    """Do the trainings that are not complete yet."""
    train_in(place, [task.scenario() for task in tasks])


def agents(place: Workplace, tasks: Iterable[Task]) -> list[Candidate]:
    """Return the agents of complete trainings, each with likeliest and with drawn actions.

    Their names are those of the trainings, and for drawn actions with ``, drawn`` behind it.
    """
    return [
        agent(task.folder(place), task.name + (", drawn" if drawn else ""), drawn=drawn)
        for task in tasks
        for drawn in (False, True)
    ]


def minutes(place: Workplace, tasks: Iterable[Task]) -> float:
    """Return how long complete trainings took, one after another, in minutes."""
    return sum(wall_time_s(task.folder(place)) for task in tasks) / 60.0
