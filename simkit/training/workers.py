"""Several trainings at a time, in processes that an interrupt ends at once.

A training resumes from its last checkpoint, so at most a minute of work is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from pathlib import Path

from simkit.experiment.workers import Workers
from simkit.scenario import Scenario
from simkit.training.train import train


def train_all(
    trainings: Sequence[tuple[Scenario, Path]], *, workers: int, say: Callable[[str], None]
) -> None:
    """Do all trainings that are not complete, each in its folder; `say` is told of each."""
    if workers == 1:
        for scenario, folder in trainings:
            say(f"trained {_train(scenario, folder)}")
        return
    with Workers(workers, grace_s=0.0) as pool:
        for done in as_completed([pool.submit(_train, *one) for one in trainings]):
            say(f"trained {done.result()}")


def _train(scenario: Scenario, folder: Path) -> str:
    train(scenario, folder)
    return folder.name
