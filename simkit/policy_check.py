"""Checks that a policy keeps the rules: for authors of policies, in a test of one line.

    def test_my_policy():
        simkit.check_policy(MyPolicy())

The policy is run on small generated workloads. What a run enforces anyway (no start that does not
fit, no task twice) shows as the run's own PolicyError; what it cannot see is looked for here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simkit.cluster import Cluster
from simkit.errors import PolicyError
from simkit.memory_run import MemoryStore
from simkit.policy import Policy
from simkit.policy_source import checked_policy
from simkit.recorder import Recorder
from simkit.run_folder import Run
from simkit.simulation import Simulation
from simkit.workload import Workload

JOBS = 60
"""Jobs of each workload."""


def check_policy(policy: Policy | type[Policy] | Callable[[], Policy], *, seed: int = 0) -> None:
    """Run a policy through small workloads and raise PolicyError if it breaks a rule.

    Rules: it has `reset` and `schedule`; every action is legal; every job that fits the empty
    machines is started, so that nothing waits for ever; a second run after `reset`, with the same
    seed, gives the same starts, so that nothing is left over from the first.

    Args:
        policy: a policy, its class, or a function that makes one.
        seed: of the workloads and the policy's own stream.
    """
    if not (isinstance(policy, type) or hasattr(policy, "schedule")):
        policy = policy()
    checked = checked_policy(policy)
    for name, workload, cluster in _cases(seed):
        first = _run(checked, workload, cluster, seed)
        _check_all_started(checked, first, name)
        second = _run(checked, workload, cluster, seed)
        if first.digest != second.digest:
            raise PolicyError(
                f"{type(checked).__name__}: two runs of {name} with seed {seed} differ; draw only "
                "from the generator that reset gets, and forget everything there"
            )


def _cases(seed: int) -> list[tuple[str, Workload, Cluster]]:
    """Return (name, workload, cluster): a pool, several machines, and everything at once."""
    rng = np.random.default_rng(seed)
    pool = Cluster.pool({"processors": 16.0})
    machines = Cluster(("processors",), ("a", "b", "c"), np.array([[8.0], [4.0], [16.0]]))
    return [
        ("a pool", _workload(rng, most=16, gap_s=300.0), pool),
        ("several machines", _workload(rng, most=28, gap_s=300.0), machines),
        ("jobs that arrive at one instant", _workload(rng, most=16, gap_s=0.0), pool),
    ]


def _workload(rng: np.random.Generator, *, most: int, gap_s: float) -> Workload:
    run = rng.integers(1, 3600, JOBS).astype(np.float64)
    columns = {
        "job_id": np.arange(1, JOBS + 1),
        "submit_time_s": np.cumsum(rng.exponential(gap_s, JOBS)) if gap_s else np.zeros(JOBS),
        "run_time_s": run,
        # estimates are upper bounds mostly, as users' are, but now and then a job overruns
        "requested_time_s": np.ceil(run * rng.uniform(0.8, 5.0, JOBS)),
        "processors": np.minimum(2 ** rng.integers(0, 6, JOBS), most),
        "user": rng.integers(0, 5, JOBS),
    }
    return Workload.from_jobs(columns)


def _run(policy: Policy, workload: Workload, cluster: Cluster, seed: int) -> Run:
    store = MemoryStore({"status": "incomplete"})
    simulation = Simulation(
        workload, cluster, Recorder(workload, cluster.resources, store), seed=seed
    )
    simulation.run(policy, seed)
    store.close_tables()
    nothing: dict[str, Any] = {}
    return store.complete(nothing, nothing)


def _check_all_started(policy: Policy, run: Run, case: str) -> None:
    import polars as pl

    waiting = run.scan("jobs").filter(pl.col("status") == "waiting").select("job_id").collect()
    if len(waiting):
        ids = ", ".join(map(str, waiting["job_id"].head(5).to_list()))
        raise PolicyError(
            f"{type(policy).__name__}: {len(waiting)} of {JOBS} jobs of {case} never start (job "
            f"{ids}), though each fits the empty machines; place every task in the end"
        )
