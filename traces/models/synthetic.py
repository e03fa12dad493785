"""What the models of synthetic workloads share: their keys, and the workload of rigid jobs."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from simkit.arrays import Bools, Floats, Ints
from simkit.scenario.workload import WorkloadModel
from simkit.sections import Count, ItemCount, Positive
from simkit.traces.models.users import Estimates, draw_users, requested_times
from simkit.units import LONGEST_S, time_on_grid
from simkit.workload import RowReport, Trace, Workload

Share = Annotated[float, Field(ge=0, le=1)]
Probability = Annotated[float, Field(gt=0, le=1)]


class LoadModel(WorkloadModel):
    """A model whose arrival rate may follow from an offered load."""

    rate_key: ClassVar[str] = "rate_per_s"
    offered_load: Positive | None = None
    """Requested area over capacity; the arrival rate follows from it."""

    def check_one_rate(self) -> None:
        """Raise ValueError unless exactly one of offered load and arrival rate is given."""
        given = [key for key in ("offered_load", self.rate_key) if getattr(self, key) is not None]
        if len(given) != 1:
            counted = "both are" if given else "neither is"
            raise ValueError(
                f"needs offered_load or {self.rate_key}, and {counted} there; give one of them"
            )


class RigidModel(LoadModel):
    """What every model of rigid jobs takes."""

    jobs: ItemCount
    """How many jobs."""
    processors: Count
    """The machine's size, and so the most processors of a job."""
    users: Annotated[int, Field(ge=0)] = 0
    """How many users share the jobs; 0 leaves them unknown."""
    estimates: Estimates = "exact"
    """Requested times: none, the run time exactly, or round values well above it."""

    def rigid_jobs(
        self,
        submit_time_s: Floats,
        run_time_s: Floats,
        sizes: Ints,
        queue: Ints | None,
        rng: np.random.Generator,
    ) -> Trace:
        """Return the trace of J generated jobs, numbered from 1 in order of submission.

        Args:
            submit_time_s: (J,) ascending, in seconds since the trace's zero.
            run_time_s: (J,) seconds.
            sizes: (J,) processors of each job.
            queue: (J,) queue numbers, if the model has queues.
            rng: the generator of users and estimates alone.
        """
        who, how = rng.spawn(2)
        jobs = len(submit_time_s)
        columns = {
            "job_id": np.arange(1, jobs + 1),
            "submit_time_s": submit_time_s,
            "run_time_s": run_time_s,
            "processors": sizes,
        }
        if self.estimates != "none":
            columns["requested_time_s"] = requested_times(run_time_s, self.estimates, how)
        if self.users:
            columns["user"] = draw_users(jobs, self.users, who)
        if queue is not None:
            columns["queue"] = queue
        workload = Workload.from_jobs(columns, capacity={"processors": float(self.processors)})
        return Trace(workload, RowReport(read=jobs, accepted=jobs))


class DrawnSets(NamedTuple):
    """S job sets of at most J jobs; rows are padded at the end with jobs of length 0."""

    enter: Ints
    """(S, J) step in which each job arrives, ascending along a row."""
    length: Ints
    """(S, J) steps that it takes."""
    size: Ints
    """(S, J, 2) units of cpu and mem that it holds meanwhile."""

    @classmethod
    def gathered(cls, arrives: Bools, enter: Ints, length: Ints, size: Ints) -> DrawnSets:
        """Leave out the places at which no job arrives.

        Args:
            arrives: (S, P) whether a job arrives.
            enter: (P,) the step that belongs to a place.
            length: (S, P) steps.
            size: (S, P, 2) units.
        """
        order = np.argsort(~arrives, axis=1, kind="stable")
        order = order[:, : max(int(arrives.sum(axis=1).max(initial=0)), 1)]
        there = np.take_along_axis(arrives, order, 1)
        return cls(
            enter=np.where(there, enter[order], 0),
            length=np.where(there, np.take_along_axis(length, order, 1), 0),
            size=np.where(there[..., None], np.take_along_axis(size, order[..., None], 1), 0),
        )


def spread(numbers: Floats, bounds: tuple[int, int]) -> Ints:
    """Return whole numbers from the first bound to the second, evenly spread, of [0, 1)."""
    low, high = bounds
    spread: Ints = (numbers * (high - low + 1)).astype(np.int64)  # rounds down what is not negative
    spread += low
    return spread


def pool_trace(enter: Ints, length: Ints, amounts: Floats, step_s: float, capacity: float) -> Trace:
    """Return the trace of J jobs on a pool of cpu and mem; they request their run time.

    Args:
        enter: (J,) steps in which they arrive, ascending.
        length: (J,) steps that they take.
        amounts: (J, 2) of each resource.
        step_s: length of a step.
        capacity: of either resource.
    """
    jobs, step, resources = len(enter), float(time_on_grid(step_s)), ("cpu", "mem")
    run_time_s: Floats = length * np.float64(step)
    # A clock that runs too far is a mistake, and told as one.
    make = Workload.trusted if enter[-1] * step <= LONGEST_S / 2 else Workload
    workload = make(
        resources=resources,
        job_id=np.arange(1, jobs + 1),
        submit_time_s=enter * np.float64(step),
        first_task=np.arange(jobs + 1),
        task_id=np.zeros(jobs, np.int64),
        instances=np.ones(jobs, np.int64),
        request=amounts,
        run_time_s=run_time_s,
        requested_time_s=run_time_s,
        gang=np.ones(jobs, np.bool_),
        capacity=dict.fromkeys(resources, float(capacity)),
    )
    return Trace(workload, RowReport(read=jobs, accepted=jobs))
