"""The scores of agents and heuristics on the Sofia study's held-out batches, by two counts.

The study's figure 4 shows mean slowdowns of the jobs that are finished when an episode is cut off
after 150 steps. Here every batch is played to its end, and both counts are taken from the same
play: over all jobs, and over those that were finished at the cut. Intervals are over batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from simkit.analysis.intervals import Interval, set_interval
from simkit.arrays import Floats
from simkit.errors import RunError, SimkitError
from simkit.experiment import carry_out, prepare
from simkit.experiment.workers import (
    Executor,
    InProcess,
    LocalProcesses,
    PlannedRun,
    SweepOutcome,
)
from simkit.learners.reproductions.common import kept_table, with_bounds
from simkit.learners.reproductions.sofia.study import (
    METHODS,
    RATE,
    SofiaRun,
    SofiaSetting,
    scenario_at,
    trainings,
)
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace
from simkit.training.held_out import applied
from simkit.training.judge import judge, judged_metric

CUT: Final = 150
"""Step after which the study's episodes end."""
DIMENSIONS: Final = {"slots": 10, "horizon": 60}
HEURISTICS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "SJF": ("slotted-sjf", {}),
    "Packer": ("slotted-packer", {}),
    "Tetris 0.00002": ("slotted-tetris", {"knob": 0.00002}),
    "Tetris 0.0005": ("slotted-tetris", {"knob": 0.0005}),
    "SJF, reserving best": ("slotted-sjf", {"reserve": "best"}),
    "SJF, reserving rest": ("slotted-sjf", {"reserve": "rest"}),
    "Packer, reserving best": ("slotted-packer", {"reserve": "best"}),
    "Tetris 0.00002, reserving best": ("slotted-tetris", {"knob": 0.00002, "reserve": "best"}),
    "Small and soon first": ("slotted-area", {}),
    "Random": ("slotted-random", {}),
}
"""Label → policy and arguments. The study's SJF and Packer may start jobs later, as agents may. The
numbers of small and soon first were chosen on other batches."""
EVERYWHERE: Final = ("natural", "adam", "ppo")
"""Methods whose agents are tested at all rates; others only at the rate of their training."""
GREEDY_TOO: Final = ("natural", "proximal", "ppo")
"""Methods whose agents are also tested with their likeliest actions."""
GREEDY: Final = ", greedy"
"""Suffix of the label of an agent that always takes the likeliest action."""


def candidates(
    rate: float, agents: Mapping[str, list[SofiaRun]], folder: Path
) -> dict[str, Mapping[str, Any]]:
    """Return label → section `policy` of all candidates at a rate."""
    found: dict[str, Mapping[str, Any]] = {
        label: {"name": name, "args": {**DIMENSIONS, **arguments}}
        for label, (name, arguments) in HEURISTICS.items()
    }
    for method, tasks in agents.items():
        for task in tasks if rate == RATE or method in EVERYWHERE else ():
            agent = {"agent": str(folder / task.name)}
            found[task.name] = agent
            if method in GREEDY_TOO:
                found[task.name + GREEDY] = {**agent, "args": {"choose": "greedy"}}
    return found


def judge_all(
    place: Workplace, setting: SofiaSetting, agents: Mapping[str, list[SofiaRun]]
) -> pl.DataFrame:
    """Compare everyone at every rate; return a row for each rate, candidate and batch; kept."""
    executor: Executor = InProcess() if place.workers == 1 else LocalProcesses(place.workers)
    tables = []
    for rate, batches in setting.batches.items():
        for label, policy in candidates(rate, agents, trainings(place)).items():
            name = f"{rate:g}-{label.replace(', ', '-').replace(' ', '-')}.parquet"
            play = partial(_play, setting, rate, label, policy, batches, executor)
            tables.append(kept_table(place, place.work / "judged" / name, play))
        place.say(f"judged at a rate of {rate:g}")
    table = pl.concat(tables)
    _refuse_different_jobs(table)
    return table


def _play(
    setting: SofiaSetting,
    rate: float,
    label: str,
    policy: Mapping[str, Any],
    batches: int,
    executor: Executor,
) -> pl.DataFrame:
    """Return a row for each batch; each seed draws one."""
    scenario = scenario_at(rate, setting).model_dump(mode="json")
    one = load_scenario({**scenario, "policy": dict(policy)})
    data = one.model_dump(mode="json")
    jobs: list[PlannedRun] = [
        ({"label": label, "batch": batch}, applied(data, {"seed": batch}), "")
        for batch in range(batches)
    ]
    rows: list[dict[str, Any]] = [{} for _ in jobs]
    for row, outcome in executor.run(judge_job, jobs):
        if outcome.state == "failed":
            raise RunError(f"sofia: {outcome.assignment}: {outcome.error}")
        rows[row] = {"rate": rate, **outcome.assignment, **outcome.metrics}
    return pl.DataFrame(rows)


def judge_job(job: PlannedRun) -> SweepOutcome:
    """Play a batch in memory and score it; an error becomes part of the outcome."""
    assignment, data, _ = job
    try:
        run = carry_out(prepare(Scenario.model_validate(data)))
        everyone = judge(run, judged_metric("slowdown"), 1.0)
        return SweepOutcome(
            assignment, Path(), "done", metrics={**everyone, **at_the_cut(run.jobs)}
        )
    except SimkitError as error:
        return SweepOutcome(assignment, Path(), "failed", str(error))


def at_the_cut(jobs: pl.DataFrame) -> dict[str, float]:
    """Return the number of jobs finished after step `CUT`, and the sum of their slowdowns."""
    done = jobs.filter(pl.col("end_time_s") <= CUT)
    return {
        "done_at_cut": len(done),
        "sum_at_cut": float((done["turnaround_time_s"] / done["trace_run_time_s"]).sum()),
    }


def _refuse_different_jobs(table: pl.DataFrame) -> None:
    """Raise RunError unless all candidates were given the same batches."""
    kinds = table.select("rate", "batch", "workload").unique()
    if len(kinds) > len(kinds.select("rate", "batch").unique()):
        raise RunError("sofia: candidates saw different jobs; judge again in an empty folder")


REFERENCE: Final = "SJF, reserving best"
"""The study's SJF: it may start jobs later, as agents may."""
PACKER: Final = "Packer, reserving best"
"""The study's Packer, likewise."""


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over jobs, with its interval over batches."""

    value: float
    interval: Interval

    def __str__(self) -> str:
        return with_bounds(self.value, self.interval.low, self.interval.high)


@dataclass(frozen=True)
class Score:
    """The score of a heuristic at a rate, or of a method's agents as a mean over seeds."""

    rate: float
    label: str
    seeds: tuple[float, ...]
    """The mean slowdown of each training's agent; empty for heuristics."""
    batches: int
    everyone: MeanEstimate
    """Mean slowdown of all jobs, played to the end."""
    at_cut: MeanEstimate
    """Mean slowdown of the jobs finished at the cut: the study's count."""
    done_at_cut: float
    """Their share of all jobs."""
    unfinished: int
    """Jobs that never finished; they are in `everyone`."""
    apart: MeanEstimate | None
    """`everyone` minus that of the reference, paired by batch; None for the reference."""


def scores(table: pl.DataFrame, agents: Mapping[str, list[SofiaRun]]) -> list[Score]:
    """Return a score for each rate and candidate."""
    found = []
    for rate in table["rate"].unique(maintain_order=True):
        here = table.filter(table["rate"] == rate)
        reference = _sums(here, [REFERENCE])
        for label, members in _groups(agents, at_training=rate == RATE).items():
            found.append(_score(rate, label, here, members, reference))
    return found


def _groups(agents: Mapping[str, list[SofiaRun]], *, at_training: bool) -> dict[str, list[str]]:
    """Return label → labels of the candidates that it groups."""
    groups = {label: [label] for label in HEURISTICS}
    for method, tasks in agents.items():
        if at_training or method in EVERYWHERE:
            groups[METHODS[method].label] = [task.name for task in tasks]
            if method in GREEDY_TOO:
                groups[METHODS[method].label + GREEDY] = [task.name + GREEDY for task in tasks]
    return groups


def _sums(here: pl.DataFrame, members: list[str]) -> dict[str, Floats]:
    """Return column → (members, batches)."""
    columns = ("sum", "jobs", "sum_at_cut", "done_at_cut", "unfinished")
    tables = [here.filter(here["label"] == label).sort("batch") for label in members]
    return {
        name: np.array([table[name].to_numpy() for table in tables], np.float64) for name in columns
    }


def _score(
    rate: float,
    label: str,
    here: pl.DataFrame,
    members: list[str],
    reference: Mapping[str, Floats],
) -> Score:
    mine = _sums(here, members)
    mean = {name: values.mean(axis=0) for name, values in mine.items()}  # (batches,)
    by_member = mine["sum"].sum(axis=1) / mine["jobs"].sum(axis=1)
    apart = _estimate(mean["sum"] - reference["sum"][0], mean["jobs"])
    return Score(
        rate=rate,
        label=label,
        seeds=() if label in HEURISTICS else tuple(by_member.tolist()),
        batches=mine["sum"].shape[1],
        everyone=_estimate(mean["sum"], mean["jobs"]),
        at_cut=_estimate(mean["sum_at_cut"], mean["done_at_cut"]),
        done_at_cut=float(mean["done_at_cut"].sum() / mean["jobs"].sum()),
        unfinished=int(mine["unfinished"].sum()),
        apart=None if label == REFERENCE else apart,
    )


def _estimate(sums: Floats, counts: Floats) -> MeanEstimate:
    return MeanEstimate(float(sums.sum() / counts.sum()), set_interval(sums, counts))
