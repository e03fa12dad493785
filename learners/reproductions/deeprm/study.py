"""The trainings and evaluations behind the figures of the DeepRM paper; their results are kept.

H. Mao, M. Alizadeh, I. Menache and S. Kandula, "Resource management with deep reinforcement
learning" (HotNets 2016). Agents are trained at five loads; agents and heuristics are compared at
ten, on job sets that no training has seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

from simkit.learners.reproductions.common import digest_of, kept_table, train_in, weights_hash
from simkit.scenario import Scenario
from simkit.scenario.bundled import scenario_path
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace
from simkit.training.evaluate import Candidate, evaluate

RATES = {
    10: 0.0542, 30: 0.1626, 50: 0.2710, 70: 0.379, 90: 0.4878, 110: 0.596, 130: 0.705,
    150: 0.8130, 170: 0.9214, 184: 1.0,
}  # fmt: skip
"""Offered load in percent → probability of a job in a step; the load is 1.845 times that."""
KNOBS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2)
"""Weights of Tetris' alignment; the paper's is not known."""
HEURISTICS: dict[str, dict[str, Any]] = {
    "SJF": {"name": "slotted-sjf"},
    "Packer": {"name": "slotted-packer"},
    **{f"Tetris {knob:g}": {"name": "slotted-tetris", "args": {"knob": knob}} for knob in KNOBS},
    "Random": {"name": "slotted-random"},
}
"""The paper's heuristics; all but Random start jobs now or not at all."""
RESERVING: dict[str, dict[str, Any]] = {
    f"{label}, reserving {reserve}": {
        "name": section["name"],
        "args": {**section.get("args", {}), "reserve": reserve},
    }
    for label, section in HEURISTICS.items()
    if label == "SJF" or label.startswith("Tetris")
    for reserve in ("best", "rest")
}
"""Heuristics that may place jobs into the future, as the agent may."""
WITHHOLDING: dict[str, dict[str, Any]] = {
    f"SJF, headroom {units} for {steps} steps": {
        "name": "slotted-headroom",
        "args": {"headroom": units, "patience": steps},
    }
    for units in (3, 7)
    for steps in (20, 35, 50)
}
"""Rules that withhold long jobs, as the agents do."""


@dataclass(frozen=True)
class DeepRMSetting:
    """How much to train and to test."""

    trained: tuple[int, ...]
    """Loads in percent at which agents are trained."""
    judged: tuple[int, ...]
    """Loads at which everyone is compared."""
    seeds: int
    """Trainings for slowdown at each load except 184 %."""
    further_seeds: int
    """Trainings for completion time, and at 184 %."""
    iterations: int
    long_iterations: int
    """Iterations of the single training on fixed job sets, as in the paper."""
    job_sets: int
    rollouts: int
    held_out: int
    """Job sets on which everyone is compared."""


FULL = DeepRMSetting((10, 70, 110, 130, 184), tuple(RATES), 3, 1, 400, 1000, 100, 20, 100)
QUICK = DeepRMSetting((70, 130), (70, 130), 1, 1, 60, 60, 30, 20, 20)
HIGHEST = 184
"""The load if a job arrives in every step."""


@dataclass(frozen=True)
class DeepRMRun:
    """A training."""

    load: int
    seed: int
    objective: str = "slowdown"
    fresh: bool = True

    @property
    def name(self) -> str:
        """The name of its folder."""
        kind = "" if self.fresh else "-fixed-sets"
        goal = "" if self.objective == "slowdown" else f"-{self.objective}"
        return f"deeprm-{self.load}{goal}{kind}-seed{self.seed}"


def tasks(setting: DeepRMSetting) -> list[DeepRMRun]:
    """Return the trainings, the most important ones first."""
    seeds, further = range(setting.seeds), range(setting.further_seeds)
    runs = [
        DeepRMRun(load, seed)
        for seed in seeds
        for load in (70, 130, 110, 10)
        if load in setting.trained
    ]
    runs += [DeepRMRun(130, seed, "completion") for seed in further]
    runs += [DeepRMRun(HIGHEST, seed) for seed in further if HIGHEST in setting.trained]
    return [*runs, DeepRMRun(70, 0, fresh=False)]


def scenario_of(task: DeepRMRun, setting: DeepRMSetting) -> Scenario:
    """Return the scenario of a training."""
    arguments = {
        "job_sets": setting.job_sets, "rollouts": setting.rollouts, "fresh": task.fresh,
        "objective": task.objective, "held_out_sets": setting.held_out,
    }  # fmt: skip
    return load_scenario(
        scenario_path("deeprm"),
        overrides={
            "name": task.name,
            "seed": task.seed,
            "workload": {"type": "deeprm", "rate": RATES[task.load]},
            "learn": {
                "learner": "deeprm",
                "iterations": setting.iterations if task.fresh else setting.long_iterations,
                "held_out_every": 10,
                "arguments": arguments,
            },
        },
    )


def train_missing(place: Workplace, setting: DeepRMSetting) -> None:
    """Run all trainings that are not complete yet."""
    train_in(place, [scenario_of(task, setting) for task in tasks(setting)])


def agents_at(load: int, setting: DeepRMSetting) -> list[DeepRMRun]:
    """Return the trainings whose agents are compared at a load: all of those for slowdown.

    Agents for completion time or of fixed sets are compared only at the load of their training.
    """
    return [
        task for task in tasks(setting)
        if task.load == load or (task.objective == "slowdown" and task.fresh)
    ]  # fmt: skip


def candidates(load: int, setting: DeepRMSetting, folder: Path) -> Iterator[Candidate]:
    """Yield all candidates at a load."""
    for label, section in {**HEURISTICS, **RESERVING, **WITHHOLDING}.items():
        yield Candidate("policy", section, label)
    for task in agents_at(load, setting):
        yield Candidate("agent", {"agent": str(folder / task.name)}, task.name)


def judged_scenario(load: int) -> Scenario:
    """Return the scenario in which everyone is compared at a load in percent."""
    return load_scenario(
        scenario_path("deeprm"),
        overrides={"workload": {"type": "deeprm", "rate": RATES[load]}},
    )


def judge_all(place: Workplace, setting: DeepRMSetting) -> pl.DataFrame:
    """Compare everyone at every load; return a row for each load, candidate and set; kept."""
    tables = []
    for load in setting.judged:
        everyone = list(candidates(load, setting, place.work / "trainings"))
        key = digest([judged_scenario(load).model_dump_json(), setting.held_out], everyone)
        path = place.work / "judged" / f"{load}-{key}.parquet"
        play = partial(_judge, place, load, setting, everyone)
        tables.append(kept_table(place, path, play, f"judged at {load} %"))
    return pl.concat(tables, how="diagonal_relaxed")


def _judge(
    place: Workplace, load: int, setting: DeepRMSetting, everyone: Sequence[Candidate]
) -> pl.DataFrame:
    """Compare everyone at a load; also by completion time, if an agent is trained for it."""
    rows = []
    for metric in ("slowdown", "turnaround_time_s") if load == 130 else ("slowdown",):
        found = evaluate(
            judged_scenario(load), list(everyone),
            sets=setting.held_out, metric=metric, workers=place.workers,
        )  # fmt: skip
        rows += [{"load": load, "metric": metric, **row} for row in found.rows]
    return pl.DataFrame(rows)


def digest(values: Sequence[object], everyone: Iterable[Candidate]) -> str:
    """Return a hash of values and candidates; an agent's weights stand for its path."""
    hashed = list(values)
    for one in everyone:
        agent = one.policy.get("agent")
        hashed += [one.label, weights_hash(Path(agent)) if agent else dict(one.policy)]
    return digest_of(hashed)


COLUMNS = (
    "iteration", "wall_time_s", "decisions", "return", "return_best", "entropy",
    "held_out_slowdown", "held_out_unfinished",
)  # fmt: skip


def curves(place: Workplace, setting: DeepRMSetting) -> pl.DataFrame:
    """Return a row for each iteration of each training done, with its name, load and seed."""
    parts = []
    for task in tasks(setting):
        path = place.work / "trainings" / task.name / "metrics.parquet"
        if path.exists():
            table = pl.read_parquet(path)
            facts = (pl.lit(task.name).alias("training"), pl.lit(task.load).alias("load"),
                     pl.lit(task.seed).alias("seed"))  # fmt: skip
            parts.append(table.select(*facts, *(c for c in COLUMNS if c in table.columns)))
    return pl.concat(parts, how="diagonal_relaxed")
