"""Replay of chunks of the DeepJS table under CloudSimPy's rules and under simkit's own rules.

    python docs/reproductions/cloudsimpy_reference_schedules.py TABLE FOLDER

TABLE is DeepJS's table of jobs, `cloudsimpy_jobs.csv.gz`. FOLDER contains CloudSimPy's schedules:
`makespans_0_202.csv` (chunk, policy, makespan) and `placements_0_3.csv.gz` (chunk, policy, job_id,
task_id, instance, machine, start, end). Prints Markdown; exits with 1 if a schedule differs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.cloudsimpy import CloudSimPy, makespan
from simkit.policies.fitness import FirstFit, Tetris
from simkit.policy import Policy, SystemInfo
from simkit.policy.fitness import FitnessPolicy
from simkit.results.run_writer import MemoryWriter
from simkit.rules import Rules
from simkit.traces.task_table import read_task_table
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

CLUSTER = Cluster(("cpu", "mem"), tuple("abcde"), np.array([[64.0, 1.0]] * 5))
THEIRS = Rules(scheduling={"every": 1.0})
NAMES = {"firstfit": "first-fit", "tetris": "tetris", "sjf": "sjf", "ljf": "ljf"}
OWN = {"firstfit": FirstFit, "tetris": lambda: Tetris(srtf=0.0)}
PLACED = ("job_id", "task_id", "machine", "start", "end")


class ReferenceRandom(CloudSimPy):
    """CloudSimPy's random, with the draws of NumPy's old generator, seeded as in the reference."""

    def reset(self, info: SystemInfo, rng: Any) -> None:
        """Begin; the scenario's generator is not used."""
        old = np.random.RandomState(41)
        draws: Any = SimpleNamespace(random=old.rand, integers=lambda end: old.randint(0, end))
        super().reset(info, draws)


def replay(table: Workload, chunk: int, policy: Policy, rules: Rules) -> pl.DataFrame:
    """Return the allocations of ten consecutive jobs, the first of which is submitted at 0."""
    rows = np.arange(10 * chunk, 10 * chunk + 10)
    submit = table.submit_time_s[rows]
    jobs = table.take(rows, submit_time_s=submit - submit[0])
    writer = MemoryWriter({}, digested=False)
    Simulation(jobs, CLUSTER, Recorder(jobs, CLUSTER.resources, writer), rules=rules).run(policy)
    writer.close_tables()
    return writer.results().allocations


def same_placements(found: pl.DataFrame, expected: pl.DataFrame) -> int:
    """Return how many instances are on the same machine at the same time, ends to 1e-6 s."""
    names = {"machine_id": "machine", "start_time_s": "start", "end_time_s": "end"}
    found = found.rename(names).select(pl.col(*PLACED).repeat_by("count").explode()).sort(PLACED)
    expected = expected.select(PLACED).sort(PLACED)
    if len(found) != len(expected):
        return 0
    far = (found["end"] - expected["end"]).abs()
    exactly = pl.all_horizontal(found[name] == expected[name] for name in PLACED[:-1])
    return int(pl.select(exactly & (far < 1e-6)).to_series().sum())


def own_rules(name: str, ours: np.ndarray, theirs: np.ndarray) -> str:
    """Return a row: how far makespans are from CloudSimPy's under simkit's own rules."""
    far, share = ours - theirs, 100 * (ours - theirs) / theirs
    cells = (
        name, len(far), (far < 0).sum(), (far > 0).sum(), f"{theirs.mean():.2f}",
        f"{ours.mean():.2f}", *(f"{each:+.2f}" for each in (np.median(far), far.min(), far.max())),
        f"{np.median(share):+.2f} %", f"{np.abs(share).max():.1f} %",
    )  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def main(path: Path, folder: Path) -> int:
    """Compare everything."""
    table, differ = read_task_table(path, submit="last").workload, 0
    placed = pl.read_csv(folder / "placements_0_3.csv.gz")
    for (chunk, name), expected in sorted(placed.group_by("chunk", "policy")):
        policy = CloudSimPy(NAMES[name]) if name in NAMES else ReferenceRandom("random")
        same = same_placements(replay(table, chunk, policy, THEIRS), expected)
        print(f"| {chunk} | {name} | {len(expected):,} | {same:,} |", flush=True)
        differ += len(expected) - same
    reference = pl.read_csv(folder / "makespans_0_202.csv").sort("chunk")
    known = {
        name: reference.filter(policy=name).select("chunk", "makespan").rows() for name in NAMES
    }
    for name, theirs in known.items():
        runs = [replay(table, chunk, CloudSimPy(NAMES[name]), THEIRS) for chunk, _ in theirs]
        spans = [makespan(*run.select("start_time_s", "end_time_s").to_numpy().T) for run in runs]
        same = sum(span == expected for span, (_, expected) in zip(spans, theirs, strict=True))
        print(f"| {name} | {len(theirs)} | {same} |", flush=True)
        differ += len(theirs) - same
    for name, fitness in OWN.items():
        runs = [replay(table, chunk, FitnessPolicy(fitness()), Rules()) for chunk, _ in known[name]]
        ours = np.array([run["end_time_s"].max() for run in runs])
        theirs = np.array([each for _, each in known[name]])
        print(own_rules(NAMES[name], ours, theirs), flush=True)
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
