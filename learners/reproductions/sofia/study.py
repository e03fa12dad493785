"""What is trained for the Sofia study, and kept from run to run: curves of several optimisers.

"Resource management with deep reinforcement learning" (Sofia, 2021) trained by Adam, and tried the
natural gradient in vain. Here agents are trained by both, on batches drawn anew in each iteration,
with the study's sizes: 5 batches of some 70 jobs, 20 episodes of each. An optimiser's learning rate
is the best of several in a pilot, a short training of another seed; the natural gradient has none,
and its bound is the learner's default, not tuned. `sofia_judge` lets the agents play against
heuristics, `reproduce_sofia` makes the page of it all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.scenario import Scenario
from simkit.scenario.bundled import scenario_path
from simkit.scenario.file import load_scenario
from simkit.training.folder import Row
from simkit.training.reproduction import Workplace
from simkit.training.train import train
from simkit.training.workers import TrainingWorkers

RATE: Final = 0.7
"""Probability of a job at each position for which agents are trained, as in the study."""
PILOT_SEED: Final = 1000
"""Of the pilots; no other training has it."""
LOOKS: Final = 3
"""Looks at the held-out batches that are averaged: one alone is noisy, actions being drawn."""


@dataclass(frozen=True)
class Method:
    """A way uphill."""

    label: str
    arguments: Mapping[str, Any]
    """Of the learner, but for the learning rate."""
    rates: tuple[float, ...] = ()
    """Learning rates that are piloted; one alone is taken as it is, and none is needed by some."""


METHODS: Final[dict[str, Method]] = {
    "natural": Method("natural gradient", {"update": "natural"}),
    "adam": Method(
        "Adam, tuned", {"update": "gradient", "optimiser": "adam"}, (0.001, 0.003, 0.01, 0.03)
    ),
    "study": Method("Adam 0.001", {"update": "gradient", "optimiser": "adam"}, (0.001,)),
}
"""The study's own is Adam at 0.001."""
ORDER: Final = (("natural", "adam"), ("study",))
"""Groups of methods: the comparison that matters most is done first."""


@dataclass(frozen=True)
class Setting:
    """How much is trained and judged."""

    seeds: int
    iterations: int
    pilot_iterations: int
    held_out_every: int
    """Iterations from one look at the held-out batches to the next."""
    batches: Mapping[float, int]
    """Probability of a job at each of 100 positions → held-out batches judged there."""
    timed: int
    """Iterations of each kind whose processor time is taken."""
    methods: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the learner, where they are not its defaults."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the workload, where they are not the study's."""


FULL: Final = Setting(3, 200, 40, 5, {0.7: 60, 0.3: 30, 0.5: 30, 0.9: 30}, 20, tuple(METHODS))
QUICK: Final = Setting(2, 30, 10, 5, {0.7: 10, 0.5: 10}, 5, ("natural", "adam"))


@dataclass(frozen=True)
class Task:
    """A training."""

    method: str
    rate: float | None
    """The learning rate; None where there is none."""
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        way = METHODS[self.method].arguments.get("optimiser", self.method)
        rate = "" if self.rate is None else f"-{self.rate:g}"
        return f"sofia-{way}{rate}-" + ("pilot" if self.seed == PILOT_SEED else f"seed{self.seed}")


def scenario_at(rate: float, setting: Setting) -> Scenario:
    """Return the study's scenario with another number of jobs."""
    workload = {"type": "sofia", "rate": rate, **setting.workload}
    return load_scenario(scenario_path("sofia"), overrides={"workload": workload})


def scenario_of(task: Task, setting: Setting) -> Scenario:
    """Return the scenario of a training."""
    pilot = task.seed == PILOT_SEED
    rate = {} if task.rate is None else {"learning_rate": task.rate}
    return load_scenario(
        scenario_at(RATE, setting).model_dump(mode="json"),
        overrides={
            "name": task.name,
            "seed": task.seed,
            "learn": {
                "learner": "sofia",
                "iterations": setting.pilot_iterations if pilot else setting.iterations,
                "held_out_every": setting.held_out_every,
                "arguments": {**METHODS[task.method].arguments, **rate, **setting.arguments},
            },
        },
    )


def carry_out_training(task: Task, setting: Setting, folder: Path) -> str:
    """Train, or go on training, in a process of its own; return the training's name."""
    train(scenario_of(task, setting), folder / task.name)
    return task.name


def train_all(place: Workplace, setting: Setting) -> dict[str, list[Task]]:
    """Do all trainings that are not whole yet; return those of each method, a seed each.

    A method that comes to another's learning rate has the same trainings and is left out.
    """
    found: dict[str, list[Task]] = {}
    for order in ORDER:
        group = [name for name in order if name in setting.methods]
        _train(place, setting, [task for name in group for task in _pilots(name)])
        for name in group:
            rate = _best_rate(place, setting, name)
            tasks = [Task(name, rate, seed) for seed in range(setting.seeds)]
            if not any(tasks[0].name == known[0].name for known in found.values()):
                found[name] = tasks
        several = [found[name] for name in group if name in found]
        _train(place, setting, [task for seed in zip(*several, strict=True) for task in seed])
    return found


def trainings(place: Workplace) -> Path:
    """Return the folder of the trainings."""
    return place.work / "trainings"


def rows_of(place: Workplace, setting: Setting, task: Task) -> tuple[Row, ...]:
    """Return what was measured in a training that is whole."""
    return train(scenario_of(task, setting), trainings(place) / task.name).rows


def pilot_ends(place: Workplace, setting: Setting, method: str) -> dict[float, float]:
    """Return learning rate → held-out slowdown at the end of its pilot; empty without pilots."""
    return {
        task.rate: _end(rows_of(place, setting, task))
        for task in _pilots(method)
        if task.rate is not None
    }


def _pilots(method: str) -> list[Task]:
    rates = METHODS[method].rates
    return [Task(method, rate, PILOT_SEED) for rate in rates] if len(rates) > 1 else []


def _best_rate(place: Workplace, setting: Setting, method: str) -> float | None:
    ends = pilot_ends(place, setting, method) or dict.fromkeys(METHODS[method].rates, 0.0)
    return min(ends, key=lambda rate: (ends[rate], rate)) if ends else None


def _end(rows: Iterable[Row]) -> float:
    """Return the mean of the last looks."""
    looks = [row["held_out_slowdown"] for row in rows if "held_out_slowdown" in row]
    return float(np.mean(looks[-LOOKS:]))


def _train(place: Workplace, setting: Setting, tasks: list[Task]) -> None:
    """Train one after the other, or in processes of their own several at a time."""
    folder = trainings(place)
    folder.mkdir(exist_ok=True)
    if place.workers == 1:
        for task in tasks:
            place.say(f"trained {carry_out_training(task, setting, folder)}")
        return
    with TrainingWorkers(place.workers) as pool:
        futures = [pool.submit(carry_out_training, task, setting, folder) for task in tasks]
        try:
            for done in as_completed(futures):
                place.say(f"trained {done.result()}")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
