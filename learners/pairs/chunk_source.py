"""Chunks of a scenario's trace to train on, drawn at random, and others held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from simkit.arrays import Floats
from simkit.errors import ScenarioError
from simkit.experiment.workload import read_trace
from simkit.learners.pairs.chunk import Chunk, chunks, has_room
from simkit.scenario import Scenario

__all__ = ["ChunkSource"]


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
        cls, scenario: Scenario, jobs: int, held_out: float, learner: str, *,
        apart: int | None = None, machines: Sequence[int] = (),
    ) -> ChunkSource:  # fmt: skip
        """Return the chunks of a scenario.

        Args:
            scenario: its trace and its cluster.
            jobs: of each chunk; the last one may have fewer.
            held_out: share of the chunks one after the other, in [0, 1), rounded down.
            learner: its name, for messages.
            apart: jobs from the beginning of a chunk to train on to that of the next; None: `jobs`.
            machines: how many to train on: the first ones of the cluster, or all of them, over and
                over; none: the cluster as it is.

        Raises ScenarioError, all problems at once, for what the fast model of a chunk does not
        know, and for a trace that leaves no chunk to train on.
        """
        workload = read_trace(scenario.workload, scenario.seed).workload
        cluster = scenario.cluster.build(workload)
        keys = scenario.cluster.model_dump(exclude_defaults=True).keys()
        stands = {
            "cluster: must be machines, or processors, and nothing else": (
                keys <= {"machines", "processors"}
            ),
            "walltime: must be ignore": scenario.walltime == "ignore",
            "admission: slots and backlog must be left out": (
                scenario.admission.slots is None and scenario.admission.backlog is None
            ),
            "scheduling: step must be left out": scenario.scheduling.step is None,
            "power: is not known to this learner; leave it out": scenario.power is None,
            "processes: are not known to this learner; leave them out": not scenario.processes,
            f"cluster: its resources are {', '.join(cluster.resources)}, those of the trace "
            f"{', '.join(workload.resources)}; name the same ones in the same order": (
                cluster.resources == workload.resources
            ),
        }
        problems = [text for text, holds in stands.items() if not holds]
        if problems:
            problems.append(
                f"learn.learner: {learner} knows bags of tasks on machines that are always there; "
                "evolution takes any scenario with scorer: network"
            )
        problems += [
            f"learn.arguments.machines: an instance asks for more than any of {count} has; give "
            "more, or name the larger machines first"
            for count in machines
            if cluster.resources == workload.resources
            and has_room(workload.request, cluster.capacity)
            and not has_room(workload.request, _repeated(cluster.capacity, count))
        ]
        if problems:
            raise ScenarioError(problems)
        in_row = ceil(len(workload) / jobs)
        cut = (in_row - int(in_row * held_out)) * jobs
        if not cut:
            raise ScenarioError("workload: has no jobs to train on; give a longer trace or window")
        rows = np.arange(len(workload))
        counts = machines or (len(cluster.capacity),)
        trained = [
            replace(chunk, capacity=_repeated(cluster.capacity, count))
            for chunk in chunks(workload.take(rows[:cut]), cluster.capacity, jobs, apart)
            for count in counts
        ]
        unseen = chunks(workload.take(rows[cut:]), cluster.capacity, jobs)
        return cls(tuple(trained), tuple(unseen), tuple(workload.resources))

    def draw(self, rng: np.random.Generator, count: int) -> list[int]:
        """Return the numbers of `count` different chunks to train on, or of all if there are fewer.

        In ascending order.
        """
        chosen = rng.choice(len(self.trained), min(count, len(self.trained)), replace=False)
        return sorted(chosen.tolist())


def _repeated(capacity: Floats, count: int) -> Floats:
    """Return (count, R) of (M, R): the first rows, or all of them, over and over."""
    return np.ascontiguousarray(capacity[np.arange(count) % len(capacity)])
