"""Replay of chunks of the DeepJS table under CloudSimPy's rules and under simkit's own rules.

    python docs/reproductions/cloudsimpy_reference_schedules.py TABLE FOLDER

TABLE is DeepJS's table of jobs, `cloudsimpy_jobs.csv.gz`. FOLDER contains CloudSimPy's schedules:
`makespans_0_202.csv` (chunk, policy, makespan) and `placements_0_3.csv.gz` (chunk, policy, job_id,
task_id, instance, machine, start, end). Prints rows of Markdown; the exit code is 1 if a makespan
or a placement under CloudSimPy's rules differs from CloudSimPy's own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from simkit.engine.recorder import Recorder
from simkit.engine.simulation import Simulation
from simkit.policies.cloudsimpy import CloudSimPy, makespan
from simkit.policies.fitness import FirstFit, Tetris
from simkit.policy import Policy, SystemInfo
from simkit.policy.fitness import FitnessPolicy
from simkit.rules import Rules
from simkit.traces.task_table import read_task_table
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

CLUSTER = Cluster(("cpu", "mem"), tuple("abcde"), np.array([[64.0, 1.0]] * 5))
NAMES = {"firstfit": "first-fit", "tetris": "tetris", "sjf": "sjf", "ljf": "ljf"}
OWN: dict[str, Callable[[], Policy]] = {
    "firstfit": lambda: FitnessPolicy(FirstFit()),
    "tetris": lambda: FitnessPolicy(Tetris(srtf=0.0)),
}
PLACED = ("job_id", "task_id", "machine", "start")
Spans = dict[tuple[int, str], float]
"""(chunk, policy) → makespan in seconds."""


class LegacyDraws:
    """NumPy's old generator, from which CloudSimPy's random draws, seeded as in the reference."""

    def __init__(self) -> None:
        self._state = np.random.RandomState(41)

    def random(self) -> float:
        """Draw from [0, 1)."""
        return float(self._state.rand())

    def integers(self, end: int) -> int:
        """Draw from 0..end - 1."""
        return int(self._state.randint(0, end))


class ReferenceRandom(CloudSimPy):
    """CloudSimPy's random, with the reference's draws."""

    def __init__(self) -> None:
        super().__init__("random")

    def reset(self, info: SystemInfo, rng: Any) -> None:
        """Begin; the scenario's generator is not used."""
        super().reset(info, LegacyDraws())  # type: ignore[arg-type]


class Allocations:
    """A sink that keeps the allocations of a run."""

    def __init__(self) -> None:
        self._rows: list[pl.DataFrame] = []

    def write(self, table: str, rows: pl.DataFrame) -> None:
        """Take rows."""
        if table == "allocations":
            self._rows.append(rows)

    def table(self) -> pl.DataFrame:
        """Return all of them."""
        return pl.concat(self._rows)


def replay(jobs: Workload, policy: Policy, rules: Rules) -> pl.DataFrame:
    """Return the allocations of a run on five machines of 64 cores and memory 1."""
    sink = Allocations()
    Simulation(jobs, CLUSTER, Recorder(jobs, CLUSTER.resources, sink), rules=rules).run(policy)
    return sink.table()


def chunk_of(table: Workload, chunk: int) -> Workload:
    """Return ten consecutive jobs, the first of which is submitted at 0."""
    rows = np.arange(10 * chunk, 10 * chunk + 10)
    submit = table.submit_time_s[rows]
    return table.take(rows, submit_time_s=submit - submit[0])


def same_placements(found: pl.DataFrame, expected: pl.DataFrame) -> int:
    """Return how many instances are on the same machine at the same time."""
    names = {"machine_id": "machine", "start_time_s": "start", "end_time_s": "end"}
    found = found.rename(names).select(pl.col(*PLACED, "end").repeat_by("count").explode())
    found, expected = (table.sort(*PLACED, "end") for table in (found, expected))
    if len(found) != len(expected):
        return 0
    same = (found["end"] - expected["end"]).abs() < 1e-6
    for name in PLACED:
        same &= found[name] == expected[name]
    return int(same.sum())


def compare_placements(table: Workload, reference: pl.DataFrame) -> bool:
    """Print a row for each chunk and policy of which the placements are known."""
    equal = True
    for (chunk, name), expected in sorted(reference.group_by("chunk", "policy")):
        policy = CloudSimPy(NAMES[name]) if name in NAMES else ReferenceRandom()
        found = replay(chunk_of(table, chunk), policy, Rules(scheduling={"every": 1.0}))
        same = same_placements(found, expected)
        print(f"| {chunk} | {name} | {len(expected):,} | {same:,} |", flush=True)
        equal &= same == len(expected)
    return equal


def _makespan(allocations: pl.DataFrame) -> float | None:
    start_s, end_s = (allocations[name].to_numpy() for name in ("start_time_s", "end_time_s"))
    return makespan(start_s, end_s)


def compare_makespans(table: Workload, expected: Spans) -> bool:
    """Print a row for each policy: how many makespans are equal."""
    equal = True
    for name in NAMES:
        chunks = sorted(chunk for chunk, policy in expected if policy == name)
        same = sum(
            _makespan(
                replay(
                    chunk_of(table, chunk),
                    CloudSimPy(NAMES[name]),
                    Rules(scheduling={"every": 1.0}),
                )
            )
            == expected[chunk, name]
            for chunk in chunks
        )
        print(f"| {name} | {len(chunks)} | {same} |", flush=True)
        equal &= same == len(chunks)
    return equal


def print_own_rules(table: Workload, expected: Spans) -> None:
    """Print a row for each policy: how far makespans are from CloudSimPy's under our rules."""
    for name, make in OWN.items():
        chunks = sorted(chunk for chunk, policy in expected if policy == name)
        theirs = np.array([expected[chunk, name] for chunk in chunks])
        ours = np.array([
            replay(chunk_of(table, chunk), make(), Rules())["end_time_s"].max() for chunk in chunks
        ])  # fmt: skip
        far = ours - theirs
        share = 100 * far / theirs
        cells = (
            name, len(chunks), (far < 0).sum(), (far > 0).sum(),
            f"{theirs.mean():.2f}", f"{ours.mean():.2f}",
            *(f"{value:+.2f}" for value in (np.median(far), far.min(), far.max())),
            f"{np.median(share):+.2f} %", f"{np.abs(share).max():.1f} %",
        )  # fmt: skip
        print(f"| {' | '.join(map(str, cells))} |", flush=True)


def main() -> int:
    """Compare everything."""
    table = read_task_table(Path(sys.argv[1]), submit="last").workload
    folder = Path(sys.argv[2])
    spans = pl.read_csv(folder / "makespans_0_202.csv").select("chunk", "policy", "makespan")
    expected = {(chunk, name): float(span) for chunk, name, span in spans.rows()}
    placed = compare_placements(table, pl.read_csv(folder / "placements_0_3.csv.gz"))
    equal = compare_makespans(table, expected)
    print_own_rules(table, expected)
    return 0 if placed and equal else 1


if __name__ == "__main__":
    sys.exit(main())
