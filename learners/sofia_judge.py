"""Who plays the Sofia study's held-out batches, and what comes of it: all jobs counted, and not.

The study's figure 4 shows mean slowdowns of the jobs that are finished when an episode is cut off
after 150 steps. Here every batch is played to its end, and both counts are taken of the same play:
over all jobs, and over those that were finished at the cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simkit.errors import RunError, SimkitError
from simkit.experiment import carry_out, prepare
from simkit.held_out import applied
from simkit.judged_jobs import judge, judged_metric
from simkit.reproduction import Workplace
from simkit.scenario import Scenario
from simkit.scenario_file import load_scenario
from simkit.sweep import Executor, InProcess, Job, LocalProcesses, Outcome

from .sofia_study import RATE, Setting, Task, scenario_at, trainings

if TYPE_CHECKING:
    import polars as pl

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
    "Random": ("slotted-random", {}),
}
"""Label → policy and arguments. The study's SJF and Packer may start jobs later, as agents may."""
EVERYWHERE: Final = ("natural", "adam")
"""Methods whose agents are judged at all rates; the others at the rate of their training."""
GREEDY: Final = ", greedy"
"""Ends the label of an agent that always takes the likeliest action."""


def candidates(
    rate: float, agents: Mapping[str, list[Task]], folder: Path
) -> dict[str, Mapping[str, Any]]:
    """Return label → section `policy` of all that are judged at a rate."""
    found: dict[str, Mapping[str, Any]] = {
        label: {"name": name, "args": {**DIMENSIONS, **arguments}}
        for label, (name, arguments) in HEURISTICS.items()
    }
    for method, tasks in agents.items():
        for task in tasks if rate == RATE or method in EVERYWHERE else ():
            agent = {"agent": str(folder / task.name)}
            found[task.name] = agent
            if method == "natural":
                found[task.name + GREEDY] = {**agent, "args": {"choose": "greedy"}}
    return found


def judge_all(place: Workplace, setting: Setting, agents: Mapping[str, list[Task]]) -> pl.DataFrame:
    """Judge everyone at every rate that has not been; return a row a rate, candidate and batch."""
    import polars as pl

    folder = place.work / "judged"
    folder.mkdir(exist_ok=True)
    executor: Executor = InProcess() if place.workers == 1 else LocalProcesses(place.workers)
    tables = []
    for rate, batches in setting.batches.items():
        for label, policy in candidates(rate, agents, trainings(place)).items():
            path = folder / f"{rate:g}-{label.replace(', ', '-').replace(' ', '-')}.parquet"
            if not path.exists():
                rows = _play(scenario_at(rate, setting), label, policy, batches, executor)
                part = path.with_suffix(".part")
                pl.DataFrame([{"rate": rate, **row} for row in rows]).write_parquet(part)
                part.replace(path)
            tables.append(pl.read_parquet(path))
        place.say(f"judged at a rate of {rate:g}")
    table = pl.concat(tables)
    _refuse_different_jobs(table)
    return table


def _play(
    scenario: Scenario,
    label: str,
    policy: Mapping[str, Any],
    batches: int,
    executor: Executor,
) -> list[dict[str, Any]]:
    """Return a row a batch; a batch is what a seed draws."""
    one = load_scenario({**scenario.model_dump(mode="json"), "policy": dict(policy)})
    data = one.model_dump(mode="json")
    jobs: list[Job] = [
        ({"label": label, "batch": batch}, applied(data, {"seed": batch}), "")
        for batch in range(batches)
    ]
    rows: list[dict[str, Any]] = [{} for _ in jobs]
    for row, outcome in executor.run(judge_job, jobs):
        if outcome.state == "failed":
            raise RunError(f"sofia: {outcome.assignment}: {outcome.error}")
        rows[row] = {**outcome.assignment, **outcome.metrics}
    return rows


def judge_job(job: Job) -> Outcome:
    """Play a batch in memory and judge it; whatever goes wrong is in the outcome."""
    assignment, data, _ = job
    try:
        run = carry_out(prepare(Scenario.model_validate(data)))
        everyone = judge(run, judged_metric("slowdown"), 1.0)
        return Outcome(assignment, Path(), "done", metrics={**everyone, **at_the_cut(run.jobs)})
    except SimkitError as error:
        return Outcome(assignment, Path(), "failed", str(error))


def at_the_cut(jobs: pl.DataFrame) -> dict[str, float]:
    """Return how many jobs are finished after step `CUT`, and the sum of their slowdowns."""
    import polars as pl

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
