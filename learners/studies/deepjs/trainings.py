"""The trace, the setting and the trainings of the comparison with DeepJS.

F. Li and B. Hu, "DeepJS: Job scheduling based on deep reinforcement learning in cloud data center"
(ICBDC 2019). Its 5,216 jobs are cut into chunks of ten; agents are trained on the first 200 chunks
and tested on the last 320.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from simkit.learners.scorers.pair_model import Objective
from simkit.learners.studies.trainings import data_file
from simkit.scenario import Scenario

JOBS: Final = 10
"""Jobs in a chunk."""
MACHINES: Final = 5
"""Machines, each with 64 cores and memory 1."""
ALONE: Final = (5, 6)
"""Chunks on which agents are trained alone, as in the paper's figure 5(b)."""


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
    machines: tuple[int, ...]
    """Further numbers of machines on which the first fitness plays the test chunks."""
    less: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Learner → arguments that make its trainings smaller."""


FULL: Final = DeepJSSetting(
    200, (200, 521), 3, 2, 1, 10, 100, 30, 2, 3, (3, 4, 6, 7, 8, 10, 12, 16, 20)
)
QUICK: Final = DeepJSSetting(
    7, (200, 239), 1, 1, 0, 1, 5, 2, 1, 1, (7, 12),
    {"deepjs": {"rollouts": 6}, "fitness": {"candidates": 6, "job_sets": 10}},
)  # fmt: skip

PAPER: Final = [3, 9, 6]
PROGRAM: Final = [3, 9, 18, 9]
"""Hidden units: in the paper's table 1, and in every launch script of its program."""
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
OBJECTIVES: Final[tuple[Objective, ...]] = (
    "makespan", "turnaround", "weighted-turnaround", "slowdown"
)  # fmt: skip
"""What a fitness may minimise, the makespan by default."""
FITNESS: Final[Mapping[str, Any]] = {
    "machines": [4, 5, 6, 8], "candidates": 16, "job_sets": 100, "averaged": 30,
    "vary_requests": 0.4, "vary_run_times": 0.7,
}  # fmt: skip
"""Arguments of the learner `fitness`: a short search on chunks with varied requests and run times,
averaged over all generations. Longer searches are better on chunks 0 to 199 but worse on later
ones; earlier trials on those later chunks showed that 30 generations are enough."""


def scenarios(setting: DeepJSSetting) -> dict[str, list[Scenario]]:
    """Return the trainings: kind → one for each seed; that of seed 2 is named KIND-seed2."""
    found: dict[str, list[Scenario]] = {}
    whole, full = (0, setting.trained - 1), setting.trained * setting.repeats

    def add(
        kind: str, seeds: int, iterations: int, learner: str = "deepjs",
        chunks: tuple[int, int] = whole, size: int = MACHINES, **arguments: Any,
    ) -> None:  # fmt: skip
        usual = {"deepjs": {"hidden": PAPER, "repeats": setting.repeats}, "fitness": FITNESS}
        told = {"held_out": 0.0, **usual[learner], **arguments, **setting.less.get(learner, {})}
        learn = {"learner": learner, "iterations": iterations, "arguments": told}
        sections = {**cluster_scenario(chunks, size), "learn": learn}
        found[kind] = [
            Scenario.model_validate({"name": f"{kind}-seed{seed}", "seed": seed, **sections})
            for seed in range(seeds)
        ]

    add("deepjs-paper", setting.seeds, full)
    add("fitness", setting.seeds, setting.generations, "fitness")
    for chunk in ALONE:
        add(f"deepjs-chunk-{chunk}", setting.seeds, setting.alone, chunks=(chunk, chunk))
    add("deepjs-ten-machines", setting.ten_machines_seeds, full, size=2 * MACHINES)
    add("deepjs-program", setting.program_seeds, full, hidden=PROGRAM)
    short = {"repeats": setting.variant_repeats}
    for name, further in VARIANTS.items():
        iterations = setting.trained * setting.variant_repeats
        add(f"deepjs-{name}", 1, iterations, **{**short, **further})
    for goal in OBJECTIVES[1:]:
        add(f"fitness-{goal}", 1, setting.generations, "fitness", objective=goal)
    return found


def cluster_scenario(chunks: tuple[int, int], machines: int = MACHINES) -> dict[str, Any]:
    """Return the sections of a scenario: the jobs of some chunks under CloudSimPy's rules.

    Raises RunError if SIMKIT_DATA does not hold the table of jobs.
    """
    first, last = chunks
    return {
        "workload": {
            "type": "tasks",
            "path": str(data_file("deepjs", "alibaba/cloudsimpy_jobs.csv.gz")),
            "submit": "last",
            "window": {"jobs": f"{first * JOBS}..{last * JOBS + JOBS - 1}"},
        },
        "cluster": {"machines": [{"count": machines, "cpu": 64, "mem": 1.0}]},
        "policy": {"fitness": "balance", "compat": "cloudsimpy"},
        "scheduling": {"every": "1s"},
        "estimates": "actual",
    }
