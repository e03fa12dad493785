"""The trace, chunks and trainings of the comparison with DeepJS.

F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data center"
(ICBDC 2019). Its 5,216 jobs are cut into chunks of ten; agents are trained on the first 200 chunks
and tested on the last 320.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from simkit.learners.reproductions.common import data_file
from simkit.scenario import Scenario

JOBS: Final = 10
"""Jobs in a chunk."""
MACHINES: Final = 5
"""Machines, each with 64 cores and memory 1."""
CHUNKS: Final = 522
"""Chunks in the table; the last one has six jobs."""

Network = Literal["paper", "program"]
NETWORKS: Final[dict[Network, tuple[int, ...]]] = {"paper": (3, 9, 6), "program": (3, 9, 18, 9)}
"""Hidden units: in the paper's table 1, and in every launch script of its program."""


@dataclass(frozen=True)
class DeepJSSetting:
    """How much to train and to test."""

    trained: int
    """Chunks to train on, from the first one on."""
    judged: tuple[int, int]
    """First and last test chunk."""
    seeds: int
    """Trainings of each kind except the two below."""
    ten_machines_seeds: int
    program_seeds: int
    repeats: int
    """Iterations of DeepJS's training on a chunk, with 12 rollouts each."""
    alone: int
    """Iterations of the trainings on a single chunk."""
    generations: int
    """Generations of the learner `fitness`."""
    variant_repeats: int
    """Iterations on a chunk in the short trainings that compare options; one training each."""
    draws: int
    """Times that each test chunk is played with drawn actions."""


FULL = DeepJSSetting(200, (200, CHUNKS - 1), 3, 2, 1, 10, 100, 30, 2, 3)
QUICK = DeepJSSetting(10, (200, 239), 1, 1, 0, 2, 5, 5, 1, 1)


@dataclass(frozen=True)
class Agent:
    """A training, named after the agent that it makes."""

    kind: str
    """What it is, apart from the seed; the name of its folder begins with it."""
    learner: str
    seed: int
    machines: int
    chunks: tuple[int, int]
    """First and last chunk to train on."""
    network: Network | None = None
    """Network of the learner `deepjs`."""
    iterations: int = 1
    further: tuple[tuple[str, Any], ...] = ()
    """Arguments in addition to those of its kind."""

    @property
    def name(self) -> str:
        """Name of its folder."""
        return f"{self.kind}-seed{self.seed}"


def agents(setting: DeepJSSetting) -> Iterator[Agent]:
    """Yield the trainings."""
    whole, full = (0, setting.trained - 1), setting.trained * setting.repeats
    for seed in range(setting.seeds):
        yield Agent("deepjs-paper", "deepjs", seed, MACHINES, whole, "paper", full)
        yield Agent("fitness", "fitness", seed, MACHINES, whole, None, setting.generations)
        for chunk in ALONE:
            yield Agent(f"deepjs-chunk-{chunk}", "deepjs", seed, MACHINES, (chunk, chunk), "paper",
                        setting.alone)  # fmt: skip
    for seed in range(setting.ten_machines_seeds):
        yield Agent("deepjs-ten-machines", "deepjs", seed, 2 * MACHINES, whole, "paper", full)
    for seed in range(setting.program_seeds):
        yield Agent("deepjs-program", "deepjs", seed, MACHINES, whole, "program", full)


VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "short": {},
    "terms": {"features": "terms"},
    "terms-ppo": {"features": "terms", "update": "ppo", "epochs": 3, "baseline": "tick"},
    "started": {"features": "terms", "start": "balance"},
    "started-ppo": {"features": "terms", "start": "balance", "update": "ppo", "epochs": 3,
                    "baseline": "tick"},
    "started-clusters": {"features": "terms", "start": "balance", "machines": [4, 5, 6, 8]},
}  # fmt: skip
"""Name → arguments of the learner `deepjs` that differ from the paper's."""


def optional_agents(setting: DeepJSSetting) -> Iterator[Agent]:
    """Yield the short trainings that compare options of both learners."""
    whole, short = (0, setting.trained - 1), setting.trained * setting.variant_repeats
    for name, further in VARIANTS.items():
        chosen = (*further.items(), ("repeats", setting.variant_repeats))
        yield Agent(f"deepjs-{name}", "deepjs", 0, MACHINES, whole, "paper", short, chosen)
    for objective in ("turnaround", "weighted-turnaround", "slowdown"):
        yield Agent(f"fitness-{objective}", "fitness", 0, MACHINES, whole, None,
                    setting.generations, (("objective", objective),))  # fmt: skip


FITNESS: Final[dict[str, Any]] = {
    "machines": [4, 5, 6, 8], "candidates": 16, "job_sets": 100, "averaged": 30,
    "vary_requests": 0.4, "vary_run_times": 0.7,
}  # fmt: skip
"""Arguments of the learner `fitness`: a short search on chunks with varied requests and run times,
averaged over all generations. Longer searches are better on chunks 0 to 199 but worse on later
ones; earlier trials on those later chunks showed that 30 generations are enough."""

ALONE: Final = (5, 6)
"""Chunks on which agents are trained alone, as in the paper's figure 5(b)."""


def table_path() -> Path:
    """Return the path of the paper's jobs; raises RunError if they are missing."""
    return data_file("deepjs", "alibaba/cloudsimpy_jobs.csv.gz")


def cluster_scenario(chunks: tuple[int, int], machines: int = MACHINES) -> dict[str, Any]:
    """Return the sections of a scenario: the jobs of some chunks under CloudSimPy's rules."""
    first, last = chunks
    return {
        "workload": {
            "type": "tasks",
            "path": str(table_path()),
            "submit": "last",
            "window": {"jobs": f"{first * JOBS}..{last * JOBS + JOBS - 1}"},
        },
        "cluster": {"machines": [{"count": machines, "cpu": 64, "mem": 1.0}]},
        "policy": {"fitness": "balance", "compat": "cloudsimpy"},
        "scheduling": {"every": "1s"},
        "estimates": "actual",
    }


def scenario_of(agent: Agent, setting: DeepJSSetting) -> Scenario:
    """Return the scenario of a training."""
    arguments: dict[str, Any] = {"held_out": 0.0}
    if agent.network is not None:
        arguments |= {"hidden": list(NETWORKS[agent.network]), "repeats": setting.repeats}
    else:
        arguments |= FITNESS
    arguments |= dict(agent.further)
    return Scenario.model_validate(
        {
            "name": agent.name,
            "seed": agent.seed,
            **cluster_scenario(agent.chunks, agent.machines),
            "learn": {
                "learner": agent.learner,
                "iterations": agent.iterations,
                "arguments": arguments,
            },
        }
    )
