"""Policies that see ten waiting jobs in numbered slots, like DeepRM, on the same job sets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from simkit.arrays import Floats
from simkit.experiment import prepare, replay
from simkit.learners.lockstep.job_sets import JobSets
from simkit.learners.reproductions.schedqrm.study import POOL
from simkit.scenario import Scenario
from simkit.scenario.bundled import agent_folder
from simkit.traces.models.synthetic import pool_trace

MIXED: Final = "agent of slots, mixed loads"
OF_SLOTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "slotted-sjf": {"name": "slotted-sjf"},
    "slotted-tetris": {"name": "slotted-tetris"},
    "slotted-headroom": {"name": "slotted-headroom"},
    MIXED: {"agent": str(agent_folder("deeprm-mixed", Path())), "args": {"choose": "greedy"}},
}
"""Name → section `policy` of a scenario."""
_SLOTS: Final[Mapping[str, Any]] = {
    "workload": {"type": "schedqrm"}, "admission": {"slots": 10, "backlog": 60}, **POOL,
}  # fmt: skip


def slowdown_of_slots(name: str, sets: JobSets) -> Floats:
    """Return (S, J) the slowdown of each job in a simulation; 0 for padding, infinite if not done.

    Args:
        name: one of `OF_SLOTS`.
        sets: S job sets of the pool.
    """
    found = np.where(sets.there, np.inf, 0.0)
    scenario = Scenario.model_validate({**_SLOTS, "policy": OF_SLOTS[name]})
    for row, there in enumerate(sets.there):
        if not there.any():
            continue
        jobs = pool_trace(
            sets.enter[row, there], sets.length[row, there],
            sets.size[row, there].astype(np.float64), 1.0, 10.0,
        )  # fmt: skip
        run = replay(prepare(scenario, workload=jobs.workload), ("jobs",))
        ended = run.jobs.sort("job_id")
        times = ended["wait_time_s"] / ended["run_time_s"] + 1.0
        found[row, there] = times.fill_null(np.inf).to_numpy()
    return found
