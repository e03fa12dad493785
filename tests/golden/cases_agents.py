"""What agents decide: starts and ends of all jobs under each kind of agent.

Besides the agents that come with simkit there is one of each other kind in `agents/`, named after the
training in `cases_trained` that wrote its description. The weights were drawn instead of learned, as
multiples of 1/64, so that no last bit of a sum decides. They stand for bundles that users keep: do not
make them again when a learner changes.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cases import HERE, Case
from cases_runs import results_of
from small_scenarios import CLASSES, DEEPRM, POOL, READY, TABLE, table_of_jobs

import simkit

AGENTS = HERE / "agents"
GREEDY, SAMPLE = {"choose": "greedy"}, {"choose": "sample"}
BUSY = {"workload": {"type": "deeprm", "offered_load": 1.1, "steps": 60}}
MANY = CLASSES | {"workload": {"type": "schedqrm", "jobs": 40}}

RUNS: Mapping[str, tuple[Any, str, dict[str, Any]]] = {
    "deeprm-70": (DEEPRM | BUSY, "deeprm-70", GREEDY),
    "deeprm-70 sample": (DEEPRM | BUSY, "deeprm-70", SAMPLE),
    "deeprm-mixed": (DEEPRM | BUSY, "deeprm-mixed", GREEDY | {"patience": 20}),
    "fitness-alibaba": (TABLE, "fitness-alibaba", {}),
    "fitness-alibaba cloudsimpy": (TABLE | {"scheduling": {"every": "1s"}}, "fitness-alibaba", {"compat": "cloudsimpy"}),
    "fitness-alibaba sample": (TABLE, "fitness-alibaba", SAMPLE),
    "ppo": (DEEPRM | BUSY, "ppo", GREEDY),
    "ppo sample": (DEEPRM | BUSY, "ppo", SAMPLE),
    "dqn": (MANY, "dqn", {}),
    "dqn plans anew": (MANY, "dqn", {"keep": False, "step": 2}),
    "dqn paper": (MANY, "dqn-paper", {}),
    "rare": (READY, "rare", {}),
    "rare sample": (READY, "rare", SAMPLE),
    "cocorl rejects": (READY, "cocorl-rejects", {}),
    "rlscheduler": (POOL, "rlscheduler", {}),
    "rlscheduler backfill": (POOL, "rlscheduler-backfill", {}),
    "fitness": (TABLE, "fitness", {}),
    "deepjs": (TABLE, "deepjs", {}),
    "deepjs sample": (TABLE, "deepjs", SAMPLE),
}  # fmt: skip
"""Case → scenario, agent and its arguments."""
AGENT_OF = {
    "actor-critic": "ppo", "evolution": "ppo", "reinforce": "ppo", "sofia": "deeprm", "offline": "rare",
}  # fmt: skip
"""Learner without an agent here → the learner whose agents are of the same kind."""


def decided(name: str) -> dict[str, Any]:
    """Return the results of a run under an agent."""
    stated, agent, arguments = RUNS[name]
    kept = AGENTS / agent
    policy = {"agent": str(kept) if kept.is_dir() else agent, "args": arguments}
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", simkit.SimkitWarning)  # jobs that are rejected
        if stated["workload"]["type"] == "tasks":
            table_of_jobs(Path(place) / "jobs.csv")
            workload = stated["workload"] | {"path": str(Path(place) / "jobs.csv")}
            stated = stated | {"workload": workload}
        run = simkit.simulate({**stated, "name": "golden", "seed": 1}, policy=policy)
        found = results_of(run)
    kept_tables = ("jobs", "tasks", "allocations", "events")
    return {**found, "digests": {name: found["digests"][name] for name in kept_tables}}


CASES: Mapping[str, Case] = {
    f"agent {name}": Case(partial(decided, name), needs=("safetensors",)) for name in RUNS
}
