"""Chunks of a scenario's trace to train on, drawn at random, and others held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.errors import ScenarioError
from simkit.experiment.cluster import build_cluster
from simkit.experiment.workload import read_trace
from simkit.learners.pairs.chunk import Chunk, chunks
from simkit.scenario import Scenario

__all__ = ["ChunkSource"]


@dataclass(frozen=True)
class ChunkSource:
    """Consecutive jobs of a trace, so many in each chunk, each on an empty cluster.

    Run times are the true ones, whatever the scenario's estimates.
    """

    trained: tuple[Chunk, ...]
    """The first chunks, in order."""
    held_out: tuple[Chunk, ...]
    """The last ones; they are never trained on."""
    resources: tuple[str, ...]

    @classmethod
    def of(cls, scenario: Scenario, jobs: int, held_out_share: float) -> ChunkSource:
        """Return the chunks of a scenario.

        Args:
            scenario: its trace and its cluster.
            jobs: of each chunk; the last one may have fewer.
            held_out_share: of the chunks, in [0, 1), rounded down.

        Raises ScenarioError, all problems at once, for what the fast model of a chunk does not
        know, and for a trace of which no chunk is left to train on.
        """
        workload = read_trace(scenario.workload, scenario.seed).workload
        cluster = build_cluster(scenario.cluster, workload)
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
            raise ScenarioError(problems)
        found = tuple(chunks(workload, cluster.capacity, jobs))
        cut = len(found) - int(len(found) * held_out_share)
        if not cut:
            raise ScenarioError("workload: has no jobs to train on; give a longer trace or window")
        return cls(found[:cut], found[cut:], tuple(workload.resources))

    def draw(self, rng: np.random.Generator, count: int) -> list[int]:
        """Return the numbers of so many different chunks to train on, or of all if there are fewer.

        In ascending order.
        """
        chosen = rng.choice(len(self.trained), min(count, len(self.trained)), replace=False)
        return sorted(chosen.tolist())
