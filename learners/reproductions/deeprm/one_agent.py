"""Our own recipe for DeepRM's workload: the learner `ppo`, on all loads or on 70 % alone.

Agents and rules are compared on a thousand unseen job sets at each load; the parameters of the
rules are chosen on other sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from simkit.arrays import Floats
from simkit.learners.reproductions.common import kept_table, train_in, wall_time_s
from simkit.learners.reproductions.deeprm.figures import RatioEstimate, estimate_ratio
from simkit.learners.reproductions.deeprm.study import (
    HEURISTICS,
    KNOBS,
    RATES,
    DeepRMSetting,
    digest,
    judged_scenario,
)
from simkit.scenario import Scenario
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace
from simkit.training.evaluate import Candidate, evaluate

MIXED, ALONE = "mixed", "70"
"""Kinds of training: all loads, or 70 % alone."""
WEIGHTS = {10: 6.0}
"""Loads with a weight above 1 in the mix: at first a low load looks like any other."""
ORIGINAL = 70
"""The load at which everyone also plays the original's unseen sets."""
DECAY = 1.0
"""λ of the mix. The cost of holding a job back shows when it ends, a dozen steps later. A λ below 1
leaves that cost to the critic, which knows low loads least, so that agents held jobs back there."""
FIRST_JUDGED = 1000
"""The first seed of the test job sets; those from 0 on choose the rules."""
FAMILIES: dict[str, dict[str, dict[str, Any]]] = {
    "SJF": {"SJF": HEURISTICS["SJF"]},
    "Packer": {"Packer": HEURISTICS["Packer"]},
    "Tetris": {f"Tetris {knob:g}": HEURISTICS[f"Tetris {knob:g}"] for knob in KNOBS},
    "headroom": {
        f"headroom {units} for {steps} steps": {
            "name": "slotted-headroom",
            "args": {"headroom": units, "patience": steps},
        }
        for units in range(1, 8)
        for steps in (20, 35, 50)
    },
}
"""Family → rules, one of which is chosen at each load."""


@dataclass(frozen=True)
class OneAgentSetting:
    """How much to train and to test."""

    iterations: Mapping[str, int]
    """Kind of training → iterations."""
    job_sets: Mapping[str, int]
    """Kind of training → job sets in an iteration."""
    entropy: Mapping[str, float]
    """Kind of training → initial weight of the entropy."""
    choosing: int
    """Job sets on which the rules are chosen."""
    judging: int
    """Job sets on which everyone is compared."""


FULL = OneAgentSetting(
    {MIXED: 150, ALONE: 40}, {MIXED: 250, ALONE: 100}, {MIXED: 0.02, ALONE: 0.01}, 100, 1000
)
QUICK = OneAgentSetting(
    {MIXED: 6, ALONE: 6}, {MIXED: 60, ALONE: 10}, {MIXED: 0.04, ALONE: 0.01}, 5, 20
)


@dataclass(frozen=True)
class OneAgentAtLoad:
    """All candidates at one load; means are over all jobs of all test sets."""

    load: int
    rules: dict[str, tuple[str, float]]
    """Family → label of the chosen rule, and its mean."""
    best: str
    """The family whose chosen rule is best on the test sets."""
    seeds: dict[str, list[float]]
    """Kind of training → each seed's mean."""
    agent: dict[str, RatioEstimate]
    """Kind of training → mean over the seeds."""
    over_best: dict[str, RatioEstimate]
    """Kind of training → agents' mean / best rule's mean − 1, paired by job set."""


@dataclass(frozen=True)
class OneAgentResults:
    """All candidates at each load, and at 70 % on the original's unseen sets."""

    loads: list[OneAgentAtLoad]
    original: dict[str, list[float]]
    """Kind of training → each seed's mean; ``rule`` → the best rule's mean."""
    training_s: dict[str, list[float]]
    """Kind of training → wall time of each seed's training."""


def agent_name(kind: str, seed: int) -> str:
    """Return the name of a training and of its folder."""
    return f"ppo-{kind}-seed{seed}"


def ppo_scenario(kind: str, seed: int, setting: OneAgentSetting) -> Scenario:
    """Return the scenario of a training."""
    arguments: dict[str, Any] = {
        "job_sets": setting.job_sets[kind],
        "entropy": setting.entropy[kind],
    }
    if kind == MIXED:
        arguments |= {
            "loads": [load / 100 for load in RATES],
            "weights": [WEIGHTS.get(load, 1.0) for load in RATES],
            "decay": DECAY,
        }
    return load_scenario(
        scenario_path("deeprm"),
        overrides={
            "name": agent_name(kind, seed),
            "seed": seed,
            "workload": {"type": "deeprm", "rate": RATES[70]},
            "learn": {
                "learner": "ppo",
                "iterations": setting.iterations[kind],
                "held_out_every": 10,
                "arguments": arguments,
            },
        },
    )


def study(place: Workplace, deeprm: DeepRMSetting) -> OneAgentResults:
    """Run missing trainings and tests; return all results."""
    setting = QUICK if place.quick else FULL
    names = {
        kind: [agent_name(kind, seed) for seed in range(deeprm.seeds)] for kind in (MIXED, ALONE)
    }
    train_in(
        place,
        [ppo_scenario(kind, seed, setting) for kind in names for seed in range(deeprm.seeds)],
    )
    folder, args = place.work / "trainings", {"choose": "greedy"}
    everyone = [
        Candidate("agent", {"agent": str(folder / name), "args": args}, name)
        for kind in names
        for name in names[kind]
    ]
    loads = [_at_load(place, load, setting, names, everyone) for load in deeprm.judged]
    (at_70,) = (one for one in loads if one.load == ORIGINAL)
    label, _ = at_70.rules[at_70.best]
    rule = Candidate("policy", FAMILIES[at_70.best][label], label)
    found = _judged(place, ORIGINAL, [rule, *everyone], range(deeprm.held_out), original=True)
    original = {kind: [_mean(found[name]) for name in names[kind]] for kind in names}
    seconds = {kind: [wall_time_s(folder / name) for name in names[kind]] for kind in names}
    return OneAgentResults(loads, {**original, "rule": [_mean(found[label])]}, seconds)


def _at_load(
    place: Workplace,
    load: int,
    setting: OneAgentSetting,
    names: Mapping[str, Sequence[str]],
    agents: Sequence[Candidate],
) -> OneAgentAtLoad:
    choosing = _judged(place, load, _rules(FAMILIES.values()), range(setting.choosing))
    chosen = {
        family: min(members, key=lambda label: _mean(choosing[label]))
        for family, members in FAMILIES.items()
    }
    rules = _rules([{label: FAMILIES[family][label]} for family, label in chosen.items()])
    seeds = range(FIRST_JUDGED, FIRST_JUDGED + setting.judging)
    found = _judged(place, load, rules, seeds)
    for agent in agents:  # each by itself, so that a new one leaves the others' results valid
        found |= _judged(place, load, [agent], seeds)
    best = min(chosen, key=lambda family: _mean(found[chosen[family]]))
    rule, jobs = found[chosen[best]]
    together = {kind: np.mean([found[name][0] for name in names[kind]], axis=0) for kind in names}
    return OneAgentAtLoad(
        load,
        {family: (label, _mean(found[label])) for family, label in chosen.items()},
        best,
        {kind: [_mean(found[name]) for name in names[kind]] for kind in names},
        {kind: estimate_ratio(sums, jobs, 0.0, 1.0) for kind, sums in together.items()},
        {kind: estimate_ratio(sums, rule, -1.0, 1.0) for kind, sums in together.items()},
    )


def _rules(families: Any) -> list[Candidate]:
    return [
        Candidate("policy", section, label)
        for members in families
        for label, section in members.items()
    ]


def _mean(found: tuple[Floats, Floats]) -> float:
    """Return the mean slowdown over all jobs."""
    sums, jobs = found
    return float(sums.sum() / jobs.sum())


def _judged(
    place: Workplace,
    load: int,
    everyone: Sequence[Candidate],
    seeds: range,
    *,
    original: bool = False,
) -> dict[str, tuple[Floats, Floats]]:
    """Return label → (S,) sums of slowdowns and (S,) numbers of jobs of each set; kept.

    Sets are drawn with the seeds, or are the first of the original's unseen sets, as many as seeds.
    """
    scenario = judged_scenario(load)
    key = digest([scenario.model_dump_json(), seeds.start, seeds.stop], everyone)
    kind = "original-" if original else ""
    path = place.work / "judged" / f"one-agent-{kind}{load}-{key}.parquet"
    sets: dict[str, Any] = {"sets": len(seeds)} if original else {"seeds": seeds}

    def play() -> pl.DataFrame:
        return evaluate(scenario, list(everyone), workers=place.workers, **sets).frame()

    table = kept_table(place, path, play, f"judged at {load} % on {len(seeds)} job sets")
    rows: dict[str, tuple[Floats, Floats]] = {}
    for (label,), one in table.group_by("label", maintain_order=True):
        one = one.filter(one["jobs"] > 0).sort("set")
        rows[str(label)] = one["sum"].to_numpy().astype(float), one["jobs"].to_numpy().astype(float)
    return rows
