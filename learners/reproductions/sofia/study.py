"""The trainings of the Sofia study, by several optimisers; their results are kept.

"Resource management with deep reinforcement learning" (Sofia, 2021) trained with Adam; its natural
gradient did not converge. Here agents are trained with both, on batches drawn anew in each
iteration, with the study's sizes: 5 batches of some 70 jobs, 20 episodes of each; with PPO on the
same network; and with our own recipe, the learner `ppo`. Each method has one number, the learning
rate or the bound on a natural step, that is chosen by pilots: short trainings with another seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.learners.reproductions.common import train_in
from simkit.scenario import Scenario
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace
from simkit.training.folder import Row
from simkit.training.train import train

RATE: Final = 0.7
"""Probability of a job at each position for which agents are trained, as in the study."""
PILOT_SEED: Final = 1000
"""Seed of the pilots; no other training has it."""
LOOKS: Final = 3
"""Evaluations that are averaged: a single one is noisy, because actions are drawn."""


@dataclass(frozen=True)
class Method:
    """An optimiser and its settings."""

    label: str
    arguments: Mapping[str, Any]
    """Arguments of the learner, without the tuned one."""
    values: tuple[float, ...]
    """Values of the tuned argument to pilot; a single one is used as it is."""
    tuned: str = "learning_rate"
    """The argument that pilots choose."""
    learner: str = "sofia"


METHODS: Final[dict[str, Method]] = {
    "natural": Method("natural gradient", {"update": "natural"}, (0.003, 0.01, 0.03, 0.1), "kl"),
    "adam": Method(
        "Adam, tuned", {"update": "gradient", "optimiser": "adam"}, (0.001, 0.003, 0.01, 0.03)
    ),
    "proximal": Method("PPO, same network", {"update": "proximal"}, (0.0003, 0.001, 0.003)),
    "ppo": Method(
        "our recipe", {"starts": "ahead", "job_sets": 20, "entropy": 0.01},
        (0.0003, 0.001, 0.003, 0.01), learner="ppo",
    ),
    "study": Method("Adam 0.001", {"update": "gradient", "optimiser": "adam"}, (0.001,)),
}  # fmt: skip
"""Methods by name; the study's own is Adam at 0.001."""
ORDER: Final = (("natural", "adam", "proximal", "ppo"), ("study",))
"""Groups of methods: the most important comparison first."""


@dataclass(frozen=True)
class SofiaSetting:
    """How much to train and to test."""

    seeds: int
    iterations: int
    pilot_iterations: int
    held_out_every: int
    """Iterations from one evaluation on the held-out batches to the next."""
    batches: Mapping[float, int]
    """Probability of a job at each of 100 positions → number of test batches."""
    timed: int
    """Iterations of each kind whose processor time is measured."""
    methods: tuple[str, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of all learners that replace the methods' or the defaults."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the workload that differ from the study's."""


FULL: Final = SofiaSetting(3, 200, 40, 5, {0.7: 200, 0.3: 30, 0.5: 30, 0.9: 30}, 20, tuple(METHODS))
QUICK: Final = SofiaSetting(2, 30, 10, 5, {0.7: 10, 0.5: 10}, 5, ("natural", "adam", "ppo"))


@dataclass(frozen=True)
class SofiaRun:
    """A training."""

    method: str
    value: float
    """Value of the tuned argument."""
    seed: int

    @property
    def name(self) -> str:
        """The name of its folder."""
        way = METHODS[self.method].arguments.get("optimiser", self.method)
        return f"sofia-{way}-{self.value:g}-" + (
            "pilot" if self.seed == PILOT_SEED else f"seed{self.seed}"
        )


def scenario_at(rate: float, setting: SofiaSetting) -> Scenario:
    """Return the study's scenario at a rate of jobs."""
    workload = {"type": "sofia", "rate": rate, **setting.workload}
    return load_scenario(scenario_path("sofia"), overrides={"workload": workload})


def scenario_of(task: SofiaRun, setting: SofiaSetting) -> Scenario:
    """Return the scenario of a training."""
    pilot, method = task.seed == PILOT_SEED, METHODS[task.method]
    return load_scenario(
        scenario_at(RATE, setting).model_dump(mode="json"),
        overrides={
            "name": task.name,
            "seed": task.seed,
            "learn": {
                "learner": method.learner,
                "iterations": setting.pilot_iterations if pilot else setting.iterations,
                "held_out_every": setting.held_out_every,
                "arguments": {**method.arguments, method.tuned: task.value, **setting.arguments},
            },
        },
    )


def train_missing(place: Workplace, setting: SofiaSetting) -> dict[str, list[SofiaRun]]:
    """Run all trainings that are not complete yet; return those of each method, seed by seed.

    A method is left out if its best value makes it equal to another one: their trainings are equal.
    """
    found: dict[str, list[SofiaRun]] = {}
    for order in ORDER:
        group = [name for name in order if name in setting.methods]
        train_in(place, [scenario_of(t, setting) for name in group for t in _pilots(name)])
        for name in group:
            value = _best_value(place, setting, name)
            tasks = [SofiaRun(name, value, seed) for seed in range(setting.seeds)]
            if not any(tasks[0].name == known[0].name for known in found.values()):
                found[name] = tasks
        several = [found[name] for name in group if name in found]
        train_in(
            place, [scenario_of(t, setting) for seed in zip(*several, strict=True) for t in seed]
        )
    return found


def trainings(place: Workplace) -> Path:
    """Return the folder of the trainings."""
    return place.work / "trainings"


def rows_of(place: Workplace, setting: SofiaSetting, task: SofiaRun) -> tuple[Row, ...]:
    """Return the metrics of a complete training."""
    return train(scenario_of(task, setting), trainings(place) / task.name).rows


def pilot_ends(place: Workplace, setting: SofiaSetting, method: str) -> dict[float, float]:
    """Return value → held-out slowdown at the end of its pilot; empty without pilots."""
    return {task.value: _end(rows_of(place, setting, task)) for task in _pilots(method)}


def _pilots(method: str) -> list[SofiaRun]:
    values = METHODS[method].values
    return [SofiaRun(method, value, PILOT_SEED) for value in values] if len(values) > 1 else []


def _best_value(place: Workplace, setting: SofiaSetting, method: str) -> float:
    ends = pilot_ends(place, setting, method) or dict.fromkeys(METHODS[method].values, 0.0)
    return min(ends, key=lambda value: (ends[value], value))


def _end(rows: Iterable[Row]) -> float:
    """Return the mean held-out slowdown of the last evaluations."""
    looks = [row["held_out_slowdown"] for row in rows if "held_out_slowdown" in row]
    return float(np.mean(looks[-LOOKS:]))
