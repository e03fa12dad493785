"""Chunks of a scenario's trace to train on, drawn at random, and others held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.experiment.workload import read_trace
from simkit.learners.common.arguments import attempt, unsuited
from simkit.learners.pairs.chunk import Chunk, chunks, has_room
from simkit.scenario import Scenario
from simkit.workload import Workload

__all__ = ["ChunkSource"]

KNOWN: Final = "bags of tasks on machines that are always there"
"""What the fast model of a chunk is for."""


@dataclass(frozen=True)
class ChunkSource:
    """Equal chunks of consecutive jobs of a trace, each on an empty cluster.

    Run times are the true ones, whatever the scenario's estimates.
    """

    trained: tuple[Chunk, ...]
    """Chunks of the first jobs, in order, each on every number of machines."""
    held_out: tuple[Chunk, ...]
    """Chunks of the last jobs, on the scenario's machines; never trained on."""
    resources: tuple[str, ...]

    @classmethod
    def of(
        cls, scenario: Scenario, jobs: int, held_out: float, who: str, *,
        apart: int | None = None, machines: Sequence[int] = (),
    ) -> ChunkSource:  # fmt: skip
        """Return the chunks of a scenario.

        Args:
            scenario: its trace and its cluster.
            jobs: of each chunk; the last one may have fewer.
            held_out: share of the chunks one after the other, in [0, 1), rounded down.
            who: asks for them, such as ``learn.learner: mine``, for messages.
            apart: jobs from the beginning of a chunk to train on to that of the next; None: `jobs`.
            machines: how many to train on: the first ones of the cluster, or all of them, over and
                over; none: the cluster as it is.

        Raises ScenarioError, all problems at once, for what the fast model of a chunk does not
        know, and for a trace that leaves no chunk to train on.
        """
        workload = read_trace(scenario.workload, scenario.seed).workload
        cluster = scenario.cluster.build(workload)
        capacity, counts = cluster.capacity, machines or (len(cluster.capacity),)
        if problems := _misfits(scenario, cluster.resources, workload, capacity):
            raise unsuited(who, KNOWN, problems)
        if has_room(workload.request, capacity):
            problems = [
                f"learn.arguments.machines: an instance asks for more than any of {count} has; "
                "give more, or name the larger machines first"
                for count in counts
                if not has_room(workload.request, _repeated(capacity, count))
            ]
        in_row = ceil(len(workload) / jobs)
        cut = (in_row - int(in_row * held_out)) * jobs
        if not cut:
            problems.append("workload: has no jobs to train on; give a longer trace or window")
        if problems:
            raise ScenarioError(problems)
        rows = np.arange(len(workload))
        try:
            trained = [
                replace(chunk, capacity=_repeated(capacity, count))
                for chunk in chunks(workload.take(rows[:cut]), capacity, jobs, apart)
                for count in counts
            ]
            unseen = tuple(chunks(workload.take(rows[cut:]), capacity, jobs))
        except ScenarioError as error:
            raise unsuited(who, KNOWN, error.problems) from None
        return cls(tuple(trained), unseen, tuple(workload.resources))

    def draw(self, rng: np.random.Generator, count: int) -> list[int]:
        """Return the numbers of `count` different chunks to train on, or of all if there are fewer.

        In ascending order.
        """
        chosen = rng.choice(len(self.trained), min(count, len(self.trained)), replace=False)
        return sorted(chosen.tolist())


def _repeated(capacity: Floats, count: int) -> Floats:
    """Return (count, R) of (M, R): the first rows, or all of them, over and over."""
    return np.ascontiguousarray(capacity[np.arange(count) % len(capacity)])


def _misfits(
    scenario: Scenario, resources: Sequence[str], workload: Workload, capacity: Floats
) -> list[str]:
    """Return what of a scenario the fast model of a chunk does not know, a line each.

    Args:
        scenario: any.
        resources: names of the cluster's.
        workload: all jobs; of their tasks, those of the first are looked at.
        capacity: (M, R) of the machines.
    """
    asked = workload.resources
    admission, keys = scenario.admission, scenario.cluster.model_dump(exclude_defaults=True).keys()
    stands = {
        "cluster: must be machines, or processors, and nothing else": (
            keys <= {"machines", "processors"}
        ),
        "walltime: must be ignore": scenario.walltime == "ignore",
        "admission: slots and backlog must be left out": (
            admission.slots is None and admission.backlog is None
        ),
        "scheduling: step must be left out": scenario.scheduling.step is None,
        "power: is not known to this learner; leave it out": scenario.power is None,
        "processes: are not known to this learner; leave them out": not scenario.processes,
        f"cluster: its resources are {', '.join(resources)}, those of the trace "
        f"{', '.join(asked)}; name the same ones in the same order": resources == asked,
    }
    problems = [text for text, holds in stands.items() if not holds]
    if resources == asked:
        attempt(lambda: next(chunks(workload, capacity, 1), None), problems)
    return problems
