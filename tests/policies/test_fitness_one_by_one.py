"""Fitness policies place many instances at once; the outcome is that of one after another.

The other side of the comparison is a plain policy that looks at everything at every decision and
places a single instance at a time.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import mixed_jobs

from simkit import plugins
from simkit.policies.fitness import Tetris
from simkit.policies.orderings import HRRN, SJF, FewestRemaining, LargestRequest
from simkit.policy import Place
from simkit.policy.fitness import FitnessPolicy, MachineFitness, MachineTaskPairs
from simkit.policy.pairs import TaskColumns
from simkit.workload.cluster import Cluster, Partition


def tightest(pairs):
    """Score pairs as a user's own function may: by what is left over, whichever way it goes."""
    return -np.abs(pairs.free - 2.0 * pairs.request).sum(axis=1)


class Tightest:
    """The same, declared to depend on free amounts and capacity alone."""

    by_state = True

    def scores(self, pairs):
        return tightest(pairs)


DRAWN = ("random", "drf")
"""A fitness that draws, for all instances at once, and one that is a policy itself."""
MEMBERS = {
    **{
        name: plugins.find("simkit.policies", name, kind="fitness")
        for name in plugins.names("simkit.policies", "fitness")
        if name not in DRAWN
    },
    "tetris, work alone": lambda: Tetris(srtf=1.0),
    "custom": lambda: tightest,
    "custom, by state": Tightest,
}
ORDERS = {
    "submission": lambda: None,
    "shortest": SJF,
    "expansion factor": HRRN,
    "fewest remaining": FewestRemaining,
    "largest request": LargestRequest,
}
CAPACITY = np.array([[4.0, 2.0], [4.0, 4.0], [2.0, 4.0], [4.0, 2.0]])
EVERYWHERE = (Partition("all"),)
SOMEWHERE = (Partition("some", machines=(0, 1, 3)),)
PARTITIONS = (
    Partition("left", machines=(0, 1), queues=frozenset({0}), priority=1.0),
    Partition("right", machines=(1, 2, 3)),
)


class OneByOne:
    """Places a single instance, or a gang, and looks at everything again."""

    def __init__(self, member, order):
        self.member, self.order = member, order

    def reset(self, info, rng):
        for part in (self.member, self.order):
            if hasattr(part, "reset"):
                part.reset(info, rng)

    def schedule(self, state):
        if hasattr(self.member, "begin"):
            self.member.begin(state)
        tasks = self.in_order(state)
        self.facts = TaskColumns(tasks, len(state.info.resources))  # as the decision begins
        if isinstance(self.member, MachineFitness):
            for row, task in enumerate(tasks):
                while task.waiting and (on := self.place(state, row, self.scores(task, row))):
                    yield Place(task, on)
            return
        while pairs := [
            (
                -self.scores(task, row)(state.free[m : m + 1], state.capacity[m : m + 1], m)[0],
                row,
                m,
            )
            for row, task in enumerate(tasks)
            if task.waiting and self.place(state, row, self.scores(task, row))
            for m in self.fitting(task, state.free)
        ]:
            _, row, machine = min(pairs)
            task = tasks[row]
            gang = task.gang and task.instances > 1
            on = self.place(state, row, self.scores(task, row)) if gang else ((machine, 1),)
            yield Place(task, on)

    def in_order(self, state):
        tasks = list(state.queue)
        if hasattr(self.order, "keys"):
            keys = self.order.keys(state).tolist()
        else:
            keys = [0.0 if self.order is None else self.order.key(task) for task in tasks]
        ranked = sorted(zip(tasks, keys, strict=True),
                        key=lambda pair: (-pair[0].priority, pair[1], pair[0].index))  # fmt: skip
        return [task for task, _ in ranked]

    def scores(self, task, row):
        """Return a function of (free, capacity, machine): the score of one pair."""
        if isinstance(self.member, MachineFitness):
            return lambda free, capacity, m: self.member.scores(task, free, capacity)
        score = getattr(self.member, "scores", self.member)
        return lambda free, capacity, m: score(
            MachineTaskPairs(self.facts, np.array([row]), np.array([m]), free, capacity)
        )

    def fitting(self, task, free):
        machines = range(len(free)) if task.machines is None else task.machines
        return [m for m in machines
                if all(a <= f or not a for a, f in zip(task.request, free[m], strict=True))]  # fmt: skip

    def place(self, state, row, scores):
        """Return one instance of a bag, or all of a gang, each on the best machine of its time."""
        task, free, on = self.facts.tasks[row], state.free.copy(), {}
        for _ in range(task.instances if task.gang else 1):
            fitting = self.fitting(task, free)
            if not fitting:
                return ()
            best = max(
                fitting,
                key=lambda m: (scores(free[m : m + 1], state.capacity[m : m + 1], m)[0], -m),
            )
            free[best] -= task.request
            on[best] = on.get(best, 0) + 1
        return tuple(on.items())


def instances(run):
    """Return how many instances of each task started on each machine at each time."""
    keys = ["start_time_s", "task_id", "machine_id"]
    table = run["allocations"].group_by(keys).agg(pl.col("count").sum())
    return table.sort(keys).rows()


@pytest.mark.sampled
@pytest.mark.parametrize("many", [1, 4096])  # machines from which on states are scored once
@pytest.mark.parametrize("member", MEMBERS)
def test_all_at_once_is_one_by_one(member, many, simulate, monkeypatch):
    monkeypatch.setattr("simkit.policy.fitness._MANY", many)

    @given(
        seed=st.integers(0, 2**32),
        order=st.sampled_from(sorted(ORDERS)),
        partitions=st.sampled_from([EVERYWHERE, SOMEWHERE, PARTITIONS]),
        gangs=st.sampled_from([0.0, 0.3]),
    )
    def check(seed, order, partitions, gangs):
        cluster = Cluster(("cpu", "mem"), tuple("abcd"), CAPACITY, partitions)
        make, ordering = MEMBERS[member], ORDERS[order]
        jobs = mixed_jobs(seed, 10, gap_s=2, most=8, requests=(0.0, 0.25, 0.5, 1.0), gangs=gangs)
        assert instances(simulate(FitnessPolicy(make(), ordering()), jobs, cluster)) == instances(
            simulate(OneByOne(make(), ordering()), jobs, cluster)
        )

    check()
