"""The jobs of one pool of processors as columns: each a gang that starts and ends as a whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simkit.arrays import Floats, Ints
from simkit.errors import ScenarioError
from simkit.units import ENDLESS_S
from simkit.workload import Workload

__all__ = ["PoolJobs"]


@dataclass(frozen=True)
class PoolJobs:
    """J jobs in order of submission, on a machine of P processors."""

    submit_s: Floats
    """(J,) ascending."""
    run_s: Floats
    """(J,)"""
    processors: Floats
    """(J,) at least 1 and at most P; whole numbers."""
    requested_s: Floats
    """(J,) the estimate: the requested time, or the run time where there is none; infinite where
    there is no limit."""
    user: Ints
    """(J,) -1: unknown."""
    size: int
    """P."""

    @classmethod
    def of(cls, workload: Workload, size: int) -> PoolJobs:
        """Return the jobs of a workload on `size` processors.

        Raises ScenarioError if a job is not one gang of processors, is larger than the machine, or
        may have to wait for its release.
        """
        if workload.has_releases:
            raise ScenarioError(
                "workload: jobs have release times or preceding jobs, which the compiled pool does "
                "not know; add dependencies: ignore"
            )
        jobs = len(workload)
        rigid = len(workload.run_time_s) == jobs and workload.request.shape[1] == 1
        if not (rigid and bool(workload.gang.all())):
            raise ScenarioError(
                "workload: the jobs are not gangs of processors, as a log of an HPC machine has "
                "them; take such a log"
            )
        processors = workload.request[:, 0] * workload.instances
        if jobs and processors.max() > size:
            raise ScenarioError(
                f"workload: a job asks for {processors.max():g} processors, the machine has "
                f"{size}; give workload.processors_max: {size}, or a larger machine"
            )
        requested, user = workload.requested_time_s, workload.user
        return cls(
            workload.submit_time_s,
            workload.run_time_s,
            processors,
            np.where(np.isnan(requested), workload.run_time_s, requested),
            user if len(user) else np.full(jobs, -1, np.int64),
            size,
        )

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def r_s(self) -> Floats:
        """(J,) the estimate as formulas take it: finite."""
        return np.minimum(self.requested_s, ENDLESS_S)

    def window(self, first: int, jobs: int) -> PoolJobs:
        """Return `jobs` jobs from row `first` on; the machine is empty when they begin."""
        rows = slice(first, first + jobs)
        return PoolJobs(
            self.submit_s[rows], self.run_s[rows], self.processors[rows], self.requested_s[rows],
            self.user[rows], self.size,
        )  # fmt: skip

    def bounded_slowdown(self, start_s: Floats) -> float:
        """Return the mean of max(1, (wait + run) / max(run, 10 s)) over jobs."""
        wait = start_s - self.submit_s
        each = (wait + self.run_s) / np.maximum(self.run_s, 10.0)
        return float(np.maximum(each, 1.0).mean())
