"""Trainings of the green datacenter's reproductions: a learner, its circumstances, a seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from simkit.learners.reproductions.common import train_in, wall_time_s
from simkit.learners.reproductions.green.circumstances import Circumstances
from simkit.learners.studies.green import judge
from simkit.learners.studies.green.judge import Candidate
from simkit.learners.studies.trainings import KeptTraining
from simkit.scenario import Scenario
from simkit.training import Workplace

__all__ = ["Task", "agents", "drawn", "minutes", "named", "train"]


@dataclass(frozen=True)
class Task:
    """A training."""

    kind: str
    """Its name, apart from the seed; letters, digits and hyphens."""
    learner: str
    where: Circumstances
    iterations: int
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the learner, apart from the hours of a game."""
    seed: int = 0

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.kind}-seed{self.seed}"

    def folder(self, place: Workplace) -> Path:
        """Return its folder."""
        return place.work / "trainings" / self.name

    def scenario(self) -> Scenario:
        """Return its scenario; the agent of the last iteration is kept."""
        game = {"hours": self.where.hours, "max_start": self.where.max_start}
        learn = {
            "learner": self.learner, "iterations": self.iterations,
            "arguments": {**game, **self.arguments}, "criterion": "lost_value",
        }  # fmt: skip
        return self.where.scenario(self.name, seed=self.seed, learn=learn)


def train(place: Workplace, tasks: Iterable[Task]) -> None:
    """Run the trainings that are not complete yet."""
    train_in(place, [task.scenario() for task in tasks])


def agents(place: Workplace, tasks: Iterable[Task]) -> list[Candidate]:
    """Return the agents of complete trainings, each with likeliest and with drawn actions."""
    return [
        replace(one, arm=named(task, actions), seed=None)
        for task in tasks
        for actions, one in zip(
            ("likeliest", "drawn"),
            judge.agents([KeptTraining(place, task.scenario())]),
            strict=True,
        )
    ]


def named(task: Task, actions: str) -> str:
    """Return the name of a training's agent that takes ``likeliest`` or ``drawn`` actions."""
    return drawn(task.name) if actions == "drawn" else task.name


def drawn(name: str) -> str:
    """Return the name of an agent whose actions are drawn."""
    return f"{name}, drawn"


def minutes(place: Workplace, tasks: Iterable[Task]) -> float:
    """Return the wall time of complete trainings, one after another, in minutes."""
    return sum(wall_time_s(task.folder(place)) for task in tasks) / 60.0
