"""The trainings of the Sofia study by several optimisers, and what an iteration costs.

"Resource management with deep reinforcement learning" (Sofia, 2021) trained with Adam; its natural
gradient did not converge. Here agents are trained with both, on batches drawn anew in each
iteration, with the study's sizes: 5 batches of some 70 jobs, 20 episodes of each; with PPO on the
same network; and with our own recipe, the learner `ppo`. Each method has one number, the learning
rate or the bound on a natural step, that is chosen by pilots: short trainings with another seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from time import process_time
from typing import Any, Final

import polars as pl

from simkit.learners.recipes import sofia
from simkit.learners.studies.results import long
from simkit.learners.studies.trainings import KeptTraining, train
from simkit.scenario import Scenario
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace

RATE: Final = 0.7
"""Probability of a job at each position for which agents are trained, as in the study."""
PILOT_SEED: Final = 1000
"""Seed of the pilots; no other training has it."""
LOOKS: Final = 3
"""Evaluations that are averaged: a single one is noisy, because actions are drawn."""
LEARNING: Final = ("decisions", "held_out_slowdown", "held_out_return")


@dataclass(frozen=True)
class Method:
    """An optimiser and its settings."""

    arguments: Mapping[str, Any]
    """Arguments of the learner, without the tuned one."""
    values: tuple[float, ...]
    """Values of the tuned argument to pilot."""
    tuned: str = "learning_rate"
    learner: str = "sofia"


NATURAL: Final = "natural gradient"
METHODS: Final[Mapping[str, Method]] = {
    NATURAL: Method({"update": "natural"}, (0.003, 0.01, 0.03, 0.1), "kl"),
    "Adam, tuned": Method({"update": "gradient", "optimiser": "adam"}, (0.001, 0.003, 0.01, 0.03)),
    "PPO, same network": Method({"update": "proximal"}, (0.0003, 0.001, 0.003)),
    "our recipe": Method({"starts": "ahead", "job_sets": 20, "entropy": 0.01},
                         (0.0003, 0.001, 0.003, 0.01), learner="ppo"),
    "Adam 0.001": Method({"update": "gradient", "optimiser": "adam"}, (0.001,)),
}  # fmt: skip
"""Arm → how it is trained; the study's own is Adam at 0.001."""


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
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of all learners that replace the methods' or the defaults."""
    workload: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the workload that differ from the study's."""


FULL: Final = SofiaSetting(3, 200, 40, 5, {0.7: 200, 0.3: 30, 0.5: 30, 0.9: 30}, 20)
QUICK: Final = SofiaSetting(2, 9, 3, 3, {0.7: 5, 0.3: 2}, 2)


def scenario_at(rate: float, setting: SofiaSetting) -> Scenario:
    """Return the study's scenario at a rate of jobs."""
    workload = {"type": "sofia", "rate": rate, **setting.workload}
    return load_scenario(scenario_path("sofia"), overrides={"workload": workload})


def kept(
    place: Workplace, setting: SofiaSetting, arm: str, value: float, seed: int = PILOT_SEED
) -> KeptTraining:
    """Return a training with a value of the tuned argument; by default its pilot."""
    method, pilot = METHODS[arm], seed == PILOT_SEED
    way = method.arguments.get("optimiser", method.arguments.get("update", method.learner))
    changed = {
        "name": f"sofia-{way}-{value:g}-{'pilot' if pilot else f'seed{seed}'}",
        "seed": seed,
        "learn": {
            "learner": method.learner,
            "iterations": setting.pilot_iterations if pilot else setting.iterations,
            "held_out_every": setting.held_out_every,
            "arguments": {**method.arguments, method.tuned: value, **setting.arguments},
        },
    }
    whole = scenario_at(RATE, setting).model_dump(mode="json")
    return KeptTraining(place, load_scenario(whole, overrides=changed))


@dataclass(frozen=True)
class Tuned:
    """A method's trainings, one a seed, and what its pilots chose."""

    value: float
    """Of the tuned argument: that whose pilot ends with the lowest slowdown."""
    seeds: list[KeptTraining]
    pilots: Mapping[float, KeptTraining]


def trained(place: Workplace, setting: SofiaSetting) -> dict[str, Tuned]:
    """Return arm → its trainings, after doing all that are missing."""
    tried = {
        arm: {value: kept(place, setting, arm, value) for value in method.values}
        for arm, method in METHODS.items()
    }
    train(place, chain(*(known.values() for known in tried.values())))
    found = {}
    for arm, known in tried.items():
        ends = {v: looks(one).tail(LOOKS)["held_out_slowdown"].mean() for v, one in known.items()}
        value = min(ends, key=lambda value: (ends[value], value))
        seeds = [kept(place, setting, arm, value, seed) for seed in range(setting.seeds)]
        found[arm] = Tuned(value, seeds, known)
    train(place, chain(*(one.seeds for one in found.values())))
    return found


def looks(one: KeptTraining) -> pl.DataFrame:
    """Return a training's evaluations on held-out batches, and the decisions until then: samples.

    The case is ``untrained`` for the first evaluation, ``trained`` for the last `LOOKS`, and
    ``training`` for those between them.
    """
    place, names = pl.int_range(pl.len()), ("untrained", "trained", "training")
    untrained, trained, training = map(pl.lit, names)
    curve = one.curve.with_columns(pl.col("decisions").fill_null(0).cum_sum())
    return curve.drop_nulls("held_out_slowdown").select(
        "iteration", *LEARNING,
        case=pl.when(place == 0).then(untrained).when(place >= pl.len() - LOOKS).then(trained)
        .otherwise(training),
    )  # fmt: skip


def learning(arm: str, tuned: Tuned) -> pl.DataFrame:
    """Return learning curves, the ends of pilots and, if measured, loads L as a long table.

    The loads are those of the first iteration and of the last: of all steps, and at the step at
    which the study reads it.
    """
    parts, loads = [], list[str]()
    for seed, one in enumerate(tuned.seeds):
        parts.append(looks(one).with_columns(seed=pl.lit(seed)))
        if "load" in one.curve.columns:
            loads, cases = ["load", "last_load"], ["first iteration", "last iteration"]
            ends = one.curve.drop_nulls("load")[[0, -1]].select("iteration", *loads)
            parts.append(ends.with_columns(seed=pl.lit(seed), case=pl.Series(cases)))
    for value, one in tuned.pilots.items():
        last = looks(one).tail(LOOKS).select("iteration", "held_out_slowdown")
        parts.append(last.with_columns(case=pl.lit(f"pilot with {value:g}")))
    table = pl.concat(parts, how="diagonal")
    return long(table, [*LEARNING, *loads], arm=arm, item=pl.col("iteration"))


COST: Final = "cost of an iteration"
"""The case of the processor times of updates."""
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gradient": {"update": "gradient"},
    "natural": {"update": "natural"},
    "natural, all decisions": {"update": "natural", "fisher_share": 1.0},
}
"""The plain gradient by Adam, and the natural one over a tenth of the decisions or over all."""


def costs(scenario: Scenario, arguments: Mapping[str, Any], *, iterations: int) -> pl.DataFrame:
    """Train in all `WAYS` side by side; return what each iteration costs, as a long table.

    They take turns in one process, an iteration each, so that other load on the machine affects
    all equally; the first one, which warms the caches, is not counted. ``processor_ms`` is the
    processor time, playing included; a policy that wastes time takes more ``decisions``.
    """
    trainings = {arm: sofia(scenario, {**arguments, **way}, seed=0) for arm, way in WAYS.items()}
    rows = []
    for number in range(iterations + 1):
        for arm, training in trainings.items():
            begun = process_time()
            row = {"arm": arm, "item": number, "decisions": training.step()["decisions"]}
            rows.append({**row, "processor_ms": 1e3 * (process_time() - begun)})
    timed = pl.DataFrame(rows).filter(pl.col("item") > 0)
    return long(timed, ["processor_ms", "decisions"], case=COST)
