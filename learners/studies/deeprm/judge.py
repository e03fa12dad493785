"""Everyone on job sets that no training has seen: the original's, and a thousand more a load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from simkit.learners.studies.deeprm.trainings import Agents, DeepRMSetting, scenario_at, trained_at
from simkit.learners.studies.judging import Arm, evaluated
from simkit.learners.studies.results import Metric, long
from simkit.learners.studies.trainings import kept_table
from simkit.training import Workplace

Rules = Mapping[str, Mapping[str, Any]]
"""Label → section `policy` of a scenario."""
KNOBS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2)
"""Weights of Tetris' alignment; the paper's is not known."""
TETRIS: Final[Rules] = {
    f"Tetris {knob:g}": {"name": "slotted-tetris", "args": {"knob": knob}} for knob in KNOBS
}
HEURISTICS: Final[Rules] = {
    "SJF": {"name": "slotted-sjf"}, "Packer": {"name": "slotted-packer"}, **TETRIS,
    "Random": {"name": "slotted-random"},
}  # fmt: skip
"""The paper's heuristics; all but Random start jobs now or not at all."""
RESERVING: Final[Rules] = {
    f"{label}, reserving {reserve}": {
        "name": section["name"], "args": {**section.get("args", {}), "reserve": reserve},
    }
    for label, section in HEURISTICS.items()
    if label == "SJF" or label in TETRIS
    for reserve in ("best", "rest")
}  # fmt: skip
"""Heuristics that may place jobs into the future, as the agent may."""


def _headroom(units: int, steps: int) -> dict[str, Any]:
    return {"name": "slotted-headroom", "args": {"headroom": units, "patience": steps}}


WITHHOLDING: Final[Rules] = {
    f"SJF, headroom {units} for {steps} steps": _headroom(units, steps)
    for units in (3, 7)
    for steps in (20, 35, 50)
}
"""Rules that withhold long jobs, as the agents do."""
FAMILIES: Final[Mapping[str, Rules]] = {
    "SJF": {"SJF": HEURISTICS["SJF"]},
    "Packer": {"Packer": HEURISTICS["Packer"]},
    "Tetris": TETRIS,
    "headroom": {
        f"headroom {units} for {steps} steps": _headroom(units, steps)
        for units in range(1, 8)
        for steps in (20, 35, 50)
    },
}
"""Arm → rules, one of which is chosen at each load; our agents are compared with them."""
ORIGINAL: Final = 70
"""The load at which our agents also play the original's sets."""
FIRST_JUDGED: Final = 1000
"""Seed of the first of the thousand sets; those from 0 on choose the rules."""
METRICS: Final = {
    "slowdown": Metric("slowdown_sum", "jobs"),
    "turnaround": Metric("turnaround_sum", "jobs"),
    "withheld": Metric("withheld_jobs", "jobs"),
    "withholding steps": Metric("withholding_steps", "steps"),
}
"""Means over all jobs of all sets, finished or not; the last over all steps."""
TURNAROUND: Final = "turnaround_time_s"


def original(load: int) -> str:
    """Return the case of the original's unseen job sets at a load in percent."""
    return f"{load} %"


def seeded(load: int) -> str:
    """Return the case of the thousand further job sets."""
    return f"{load} %, more sets"


def judge_all(
    place: Workplace, setting: DeepRMSetting, papers: Sequence[Agents], ours: Sequence[Agents]
) -> tuple[pl.DataFrame, dict[str, dict[str, str]]]:
    """Return a row for each arm, seed, case, job set and metric; and the rules chosen, by case."""
    parts, chosen = [], {}
    rules = {**HEURISTICS, **RESERVING, **WITHHOLDING}
    for load in setting.judged:
        labels = chosen[seeded(load)] = _choose(place, load, setting)
        found = {family: FAMILIES[family][label] for family, label in labels.items()}
        further = {"headroom": found["headroom"]} if load == ORIGINAL else {}
        agents = [one for one in papers if one.arm == trained_at(one.load) or one.load == load]
        agents += ours if load == ORIGINAL else []
        seeds = range(FIRST_JUDGED, FIRST_JUDGED + setting.judging)
        parts += [
            judged(place, original(load), load, rules | further, agents, sets=setting.held_out),
            judged(place, seeded(load), load, found, ours, seeds=seeds),
        ]
    return pl.concat(parts), chosen


def _choose(place: Workplace, load: int, setting: DeepRMSetting) -> dict[str, str]:
    """Return family → the rule with the lowest mean slowdown on sets of their own."""
    rules = {label: rule for members in FAMILIES.values() for label, rule in members.items()}
    found = judged(place, f"{load} %, choosing", load, rules, [], seeds=range(setting.choosing))
    sums = found.filter(metric="slowdown_sum").group_by("arm").agg(pl.col("value").sum())
    total = dict(sums.select("arm", "value").iter_rows())
    return {family: min(members, key=total.__getitem__) for family, members in FAMILIES.items()}


def judged(
    place: Workplace, case: str, load: int, rules: Rules, agents: Sequence[Agents], **sets: Any
) -> pl.DataFrame:
    """Return the sums of each arm on each job set, as a long table; kept.

    ``slowdown_sum``, ``turnaround_sum`` in steps, ``jobs`` and how many are ``unfinished``.
    """
    scenario = scenario_at(load)
    arms = [Arm(label, rule) for label, rule in rules.items()]
    key = [case, str(sets), scenario.model_dump_json(), *map(str, rules.items())]
    for one in agents:
        for seed, kept in enumerate(one.kept):
            section = {"agent": str(kept.folder), "args": {"choose": one.choose}}
            arms.append(Arm(one.arm, section, seed))
            key += [one.arm, one.choose, kept.digest]

    def play() -> pl.DataFrame:
        found = evaluated(
            scenario, arms, metric="slowdown", beside=[TURNAROUND], workers=place.workers, **sets
        )
        sums = found.with_columns(
            slowdown_sum="sum", turnaround_sum=pl.col(TURNAROUND) * pl.col("jobs")
        )
        return long(sums, ("slowdown_sum", "turnaround_sum", "jobs", "unfinished"), case=case)

    return kept_table(place, case, key, play)
