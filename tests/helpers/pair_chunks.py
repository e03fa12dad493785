"""Small chunks of jobs, and what the engine makes of them under CloudSimPy's rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import floor
from pathlib import Path

import numpy as np
from engine_runs import a_bag, make_jobs, simulate

from simkit.arrays import Floats
from simkit.learners.scorers.pair_scorer import PairScorer
from simkit.policies.cloudsimpy import CloudSimPy, makespan
from simkit.policy.pairs import MachineTaskPairs
from simkit.policy.remaining_work import WorkFitness
from simkit.rules import Rules
from simkit.workload import Workload
from simkit.workload.cluster import Cluster

Bag = tuple[int, float, float, float]
"""Instances, cpu, mem and run time of a task."""
Key = tuple[float, int, int]
"""Tick, row of the task, machine."""


def short_and_long_jobs(table: Path, count: int) -> Path:
    """Write jobs that come at once and fill a machine of 8 cores each, in turn for 2 s and 40 s."""
    rows = [f"{job},{job},0,{40 if job % 2 else 2},1,8,0.1" for job in range(count)]
    header = "job_id,task_id,submit_time,duration,instances_num,cpu,memory"
    table.write_text("\n".join([header, *rows, ""]))
    return table


def workload_of(jobs: Sequence[tuple[float, Sequence[Bag]]]) -> Workload:
    """Return jobs of (submission, bags)."""
    rows = (
        (time, *(a_bag(count, run, np.nan, (cpu, mem)) for count, cpu, mem, run in bags))
        for time, bags in jobs
    )
    return make_jobs(*rows, resources=("cpu", "mem"))


def engine_run(
    policy: CloudSimPy, workload: Workload, capacity: Floats, seed: int = 0
) -> tuple[float, Counter[Key]]:
    """Return the engine's makespan, and how many instances start when and where."""
    names = tuple(f"m{row}" for row in range(len(capacity)))
    cluster, begin_s = Cluster(("cpu", "mem"), names, capacity), floor(workload.submit_time_s[0])
    found = simulate(policy, workload, cluster, seed, rules=Rules(scheduling={"every": 1.0}))[
        "allocations"
    ]
    columns = found.select("start_time_s", "task_id", "machine_id", "count").rows()
    placed = instances((start - begin_s, *rest) for start, *rest in columns)
    start_s, end_s = (found[name].to_numpy() for name in ("start_time_s", "end_time_s"))
    return makespan(start_s, end_s, float(begin_s)), placed


def instances(placed: Iterable[Sequence[float]]) -> Counter[Key]:
    """Return how many instances of (tick, task, machine, instances) start when and where."""
    counts: Counter[Key] = Counter()
    for tick, task, machine, count in placed:
        counts[tick, int(task), int(machine)] += int(count)
    return counts


class Scored(WorkFitness):
    """A pair fitness by the weights of a scorer."""

    def __init__(self, scorer: PairScorer) -> None:
        self._scorer = scorer

    def scores(self, pairs: MachineTaskPairs) -> Floats:
        """Return (P,) scores."""
        if self._scorer.features == "terms":
            return self._scorer.scores(np.column_stack([*self.urgency(pairs), *self.fit(pairs)]))
        columns = (pairs.free, pairs.request, pairs.estimate_s, pairs.remaining)
        return self._scorer.scores(np.column_stack(columns))
