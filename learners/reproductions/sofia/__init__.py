"""`simkit reproduce sofia`: natural gradient and figure 4 of the Sofia study."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from simkit.learners.reproductions.common import keep
from simkit.learners.reproductions.sofia.curves import Cost, TrainingCurve, costs
from simkit.learners.reproductions.sofia.judge import judge_all, scores
from simkit.learners.reproductions.sofia.page import write_page
from simkit.learners.reproductions.sofia.study import (
    FULL,
    QUICK,
    RATE,
    SofiaSetting,
    pilot_ends,
    rows_of,
    scenario_at,
    train_missing,
)
from simkit.learners.reproductions.sofia.tables import Results
from simkit.training import Workplace


def reproduce(place: Workplace) -> Path:
    """Run missing trainings, timings and tests, then write sofia.md, its tables and pictures.

    The full version takes about an hour on one core; an interrupted run keeps its complete parts.
    """
    return carry_out(place, QUICK if place.quick else FULL)


def carry_out(place: Workplace, setting: SofiaSetting) -> Path:
    """Run the reproduction at a given size."""
    agents = train_missing(place, setting)
    timed = _costs(place, setting)
    judged = judge_all(place, setting, agents)
    place.say("writing the page")
    curves = {
        method: [TrainingCurve.of(task, rows_of(place, setting, task)) for task in tasks]
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


def _costs(place: Workplace, setting: SofiaSetting) -> Mapping[str, Cost]:
    """Return the processor time of iterations; it is measured once and kept."""
    path = place.work / "costs.json"
    if not path.exists():
        found = costs(scenario_at(RATE, setting), setting.arguments, iterations=setting.timed)
        text = json.dumps({name: asdict(cost) for name, cost in found.items()})
        keep(path, lambda part: part.write_text(text, "utf-8"))
        place.say("timed the updates")
    kept = json.loads(path.read_text("utf-8"))
    return {name: Cost(**cost) for name, cost in kept.items()}
