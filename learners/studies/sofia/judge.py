"""Agents and heuristics on the Sofia study's held-out batches, by two counts.

The study's figure 4 shows mean slowdowns of the jobs that are finished when an episode is cut off
after 150 steps. Here every batch is played to its end, and both counts are taken from the same
play: over all jobs, and over those that were finished at the cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from simkit.experiment import carry_out, prepare
from simkit.learners.studies.results import Metric
from simkit.learners.studies.sofia.trainings import NATURAL, RATE, SofiaSetting, scenario_at
from simkit.learners.studies.trainings import KeptTraining, Part, kept_rows
from simkit.scenario import Scenario
from simkit.scenario.yaml_document import load_scenario
from simkit.training import Workplace
from simkit.training.judge import judge, judged_metric

CUT: Final = 150
"""Step after which the study's episodes end."""
DIMENSIONS: Final = {"slots": 10, "horizon": 60}
SJF: Final = "SJF, reserving best"
"""The study's SJF: it may start jobs later, as agents may."""
PACKER: Final = "Packer, reserving best"
"""The study's Packer, likewise."""
HEURISTICS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "SJF": ("slotted-sjf", {}),
    "Packer": ("slotted-packer", {}),
    "Tetris 0.00002": ("slotted-tetris", {"knob": 0.00002}),
    "Tetris 0.0005": ("slotted-tetris", {"knob": 0.0005}),
    SJF: ("slotted-sjf", {"reserve": "best"}),
    "SJF, reserving rest": ("slotted-sjf", {"reserve": "rest"}),
    PACKER: ("slotted-packer", {"reserve": "best"}),
    "Tetris 0.00002, reserving best": ("slotted-tetris", {"knob": 0.00002, "reserve": "best"}),
    "Small and soon first": ("slotted-area", {}),
    "Random": ("slotted-random", {}),
}
"""Arm → policy and arguments. The numbers of small and soon first were chosen on other batches."""
EVERYWHERE: Final = (NATURAL, "Adam, tuned", "our recipe")
"""Arms whose agents are tested at all rates; others only at the rate of their training."""
GREEDY_TOO: Final = (NATURAL, "PPO, same network", "our recipe")
"""Arms whose agents are also tested with their likeliest actions."""
GREEDY: Final = ", greedy"
"""Suffix of the arm of agents that always take the likeliest action."""
METRICS: Final = {
    "slowdown": Metric("sum", "jobs"),
    "slowdown at the cut": Metric("sum_at_cut", "done_at_cut"),
    "share at the cut": Metric("done_at_cut", "jobs"),
}
"""Means over all jobs, and over those that are finished at the cut."""
COUNTS: Final = ("sum", "jobs", "sum_at_cut", "done_at_cut", "unfinished")
BESIDE: Final = ("makespan_s", "slowdown.max")
"""What a batch costs besides: its last end, and the largest slowdown of a job."""


def candidates(
    rate: float, agents: Mapping[str, Sequence[KeptTraining]]
) -> Iterator[tuple[str, int | None, Mapping[str, Any], str]]:
    """Yield who is tested at a rate: arm, seed, policy, and a hash of an agent's weights."""
    for arm, (name, arguments) in HEURISTICS.items():
        yield arm, None, {"name": name, "args": {**DIMENSIONS, **arguments}}, ""
    for arm, trainings in agents.items():
        for seed, one in enumerate(trainings if rate == RATE or arm in EVERYWHERE else ()):
            agent = {"agent": str(one.folder)}
            yield arm, seed, agent, one.digest
            if arm in GREEDY_TOO:
                yield arm + GREEDY, seed, {**agent, "args": {"choose": "greedy"}}, one.digest


def judge_all(
    place: Workplace, setting: SofiaSetting, agents: Mapping[str, Sequence[KeptTraining]]
) -> pl.DataFrame:
    """Return the scores of everyone at every rate and on each batch as a long table; kept."""
    parts = list[Part]()
    for rate, batches in setting.batches.items():
        plain = scenario_at(rate, setting).model_dump(mode="json")
        for arm, seed, policy, digest in candidates(rate, agents):
            scenario = load_scenario({**plain, "policy": policy})
            key = [plain, batches, {**policy, "agent": digest}]
            index = {"arm": arm, "seed": seed, "case": f"{rate:g}"}
            name = f"{arm}-{seed} at {rate:g}"
            parts.append(Part(name, key, _judge, (scenario, batches), index))
    return kept_rows(place, parts, [*COUNTS, *BESIDE])


def _judge(scenario: Scenario, batches: int) -> pl.DataFrame:
    """Play all batches under one policy; return a row for each, whose seed draws it."""
    rows, metric = list[dict[str, Any]](), judged_metric("slowdown")
    for batch in range(batches):
        run = carry_out(prepare(scenario.model_copy(update={"seed": batch})))
        beside = map(judged_metric, BESIDE)
        rows.append({"item": batch, **judge(run, metric, 1.0, *beside), **at_the_cut(run.jobs)})
    return pl.DataFrame(rows)


def at_the_cut(jobs: pl.DataFrame) -> dict[str, float]:
    """Return the number of jobs finished after step `CUT`, and the sum of their slowdowns."""
    done = jobs.filter(pl.col("end_time_s") <= CUT)
    return {
        "done_at_cut": len(done),
        "sum_at_cut": float((done["turnaround_time_s"] / done["trace_run_time_s"]).sum()),
    }
