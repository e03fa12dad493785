"""`simkit reproduce sofia`: natural gradient and figure 4 of the Sofia study, to the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from simkit.learners.reproductions.sofia.curves import Cost, Curve, costs
from simkit.learners.reproductions.sofia.judge import judge_all, scores
from simkit.learners.reproductions.sofia.page import write_page
from simkit.learners.reproductions.sofia.study import (
    FULL,
    QUICK,
    RATE,
    Setting,
    pilot_ends,
    rows_of,
    scenario_at,
    train_all,
)
from simkit.learners.reproductions.sofia.tables import Results
from simkit.training.reproduction import Workplace


def reproduce(place: Workplace) -> Path:
    """Train, time and judge what is not done yet, then write sofia.md, its tables and pictures.

    The full version is about an hour of one core; what is whole stays, whenever it is stopped.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: Setting) -> Path:
    """Do as `reproduce` does, as much as a setting says."""
    agents = train_all(place, setting)
    timed = _costs(place, setting)
    judged = judge_all(place, setting, agents)
    place.say("writing the page")
    curves = {
        method: [Curve.of(task, rows_of(place, setting, task)) for task in tasks]
        for method, tasks in agents.items()
    }
    results = Results(
        setting=setting,
        curves=curves,
        pilots={method: pilot_ends(place, setting, method) for method in agents},
        costs=timed,
        scores=scores(judged, agents),
    )
    return write_page(results, place.pages, quick=place.quick)


def _costs(place: Workplace, setting: Setting) -> Mapping[str, Cost]:
    """Take the processor time of iterations, unless that was done."""
    path = place.work / "costs.json"
    if not path.exists():
        found = costs(scenario_at(RATE, setting), setting.arguments, iterations=setting.timed)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({name: asdict(cost) for name, cost in found.items()}), "utf-8")
        part.replace(path)
        place.say("timed the updates")
    kept = json.loads(path.read_text("utf-8"))
    return {name: Cost(**cost) for name, cost in kept.items()}
