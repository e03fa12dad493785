"""A tracker of the ready pool: follows a simulation, and plans the steps ahead.

    tracker.reset(info)
    for state in simulation.decisions():
        tracker.update(state)
        while (place := tracker.place(position_of_my_choice)) is not None:
            simulation.apply(place)
            tracker.update(state)

The tasks that the policy sees, in order of submission, are the ready pool. A task can be placed at
the earliest step at which it fits beside all that runs, is reserved or is planned, with the power
that is forecast, if it would end within the horizon.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor, inf

import numpy as np

from simkit.arrays import Bools, Floats, Ints
from simkit.errors import ScenarioError
from simkit.learning.ready_pool.observation import ReadyPool, ReadyView
from simkit.policy import Place, Resume, State, SystemInfo
from simkit.policy.task import Allocation, Placement, Task, instances_on
from simkit.units import ENDLESS_S

__all__ = ["ReadyTracker"]

_NOISE = 1e-6  # of a step: rounding errors of a quotient


class ReadyTracker:
    """The ready pool and the plan of what is free ahead, of one simulation.

    Attributes:
        pool: the dimensions.
        tasks: those of the ready pool, in order of submission.
    """

    tasks: tuple[Task, ...]

    def __init__(self, pool: ReadyPool, *, in_time: bool = False) -> None:
        """Make a tracker.

        Args:
            pool: the dimensions.
            in_time: a task is only placed where it can end in time, as where late ones leave.
        """
        self.pool, self._in_time = pool, in_time
        self._capacity: Floats = np.ones(pool.resources)

    def reset(self, info: SystemInfo) -> None:
        """Begin a run; raises ScenarioError for a cluster with other than R resources."""
        if len(info.resources) != self.pool.resources:
            raise ScenarioError(
                f"ready pool: the cluster has the resources {', '.join(info.resources)}, and "
                f"{self.pool.resources} are shown; give it as many"
            )
        self._capacity = np.maximum(info.capacity.sum(axis=0), 1e-12)
        self._left_s: dict[Allocation, float] = {}  # of suspended ones, expected time to run

    def update(self, state: State) -> None:
        """Follow the simulation; call it as a decision begins and after an action."""
        self._state, self._now = state, state.now
        for allocation in state.ended:
            if allocation in state.suspended and allocation not in self._left_s:
                self.suspends(allocation)
        self._profile = state.profile()
        self.tasks = tuple(state.queue.tasks[: self.pool.ready])
        self._found = [self._earliest(task) for task in self.tasks]

    def _earliest(self, task: Task) -> tuple[float, Placement] | None:
        """Return when and where a task may start; of a bag what fits, and only now."""
        pool, now = self.pool, self._now
        if task.gang:
            found = self._profile.earliest(task)
        else:
            on = self._profile.fit(task, now)
            found = None if on is None else (now, on)
        latest = now + min(
            pool.max_start * pool.step_s, pool.horizon * pool.step_s - task.estimate_s
        )
        if self._in_time:
            latest = min(latest, task.latest_start_s)
        return None if found is None or found[0] > latest else found

    def starts(self) -> Ints:
        """Return (P,) the first step ahead at which each task may start; -1: none."""
        starts = np.full(self.pool.ready, -1)
        for place, found in enumerate(self._found):
            if found is not None:
                starts[place] = self._steps(found[0] - self._now)
        return starts

    def _steps(self, seconds: float) -> int:
        """Return how many steps a time from now is, rounded up; 0 only for now."""
        steps = ceil(min(seconds, ENDLESS_S) / self.pool.step_s - _NOISE)
        return max(steps, int(seconds > 0))

    def place(self, position: int) -> Place | None:
        """Return the placement of a task as early as it may start; None: there is none."""
        found = self._found[position] if position < len(self._found) else None
        if found is None:
            return None
        start, on = found
        return Place(self.tasks[position], on, start if start > self._now else None)

    def suspends(self, allocation: Allocation) -> None:
        """Note how long an allocation would still run that is suspended now."""
        self._left_s[allocation] = max(allocation.expected_end_s - self._now, 0.0)

    def resumable(self) -> Resume | None:
        """Return how the first suspended allocation goes on of which the rest fits now."""
        for allocation, rest in self._rests():
            if on := self._profile.fit(rest, self._now):
                return Resume(allocation, on)
        return None

    def resumes_at(self) -> float:
        """Return when the rest of a suspended allocation will first fit, in s; inf: never."""
        found = (self._profile.earliest(rest) for _, rest in self._rests())
        return min((place[0] for place in found if place is not None), default=inf)

    def _rests(self) -> Iterator[tuple[Allocation, Task]]:
        """Yield the suspended allocations, the oldest first, and what is left of each as a task."""
        suspended = self._state.suspended
        self._left_s = {a: left for a, left in self._left_s.items() if a in suspended}
        for allocation in suspended:
            yield allocation, _rest(allocation, self._left_s.get(allocation, 0.0))

    def there(self) -> Bools:
        """Return (P,) places of the ready pool that hold a task."""
        return np.arange(self.pool.ready) < len(self.tasks)

    def view(self) -> ReadyView:
        """Return what is seen now."""
        pool = self.pool
        size, qos, value = np.zeros((pool.ready, pool.resources)), *np.zeros((2, pool.ready))
        length, waited, slack = np.zeros((3, pool.ready), np.int64)
        for place, task in enumerate(self.tasks):
            found = self._found[place]
            count = task.remaining if found is None else instances_on(found[1])
            asked = np.array(task.request) * count / self._capacity
            size[place] = np.minimum(asked, 1.0)  # a bag may ask for more than there is
            length[place] = self._steps(task.estimate_s)
            qos[place] = task.qos
            value[place] = task.value / (pool.worth * self._capacity.sum())
            waited[place] = (self._now - task.submit_time_s) / pool.step_s + _NOISE
            slack[place] = self._slack(task)
        begins = self._now + pool.step_s * np.arange(pool.horizon, dtype=np.float64)
        free = self._profile.total_free_at(begins) / self._capacity
        return ReadyView(
            free=np.clip(free, -1.0, 1.0),
            capacity=self._powered(begins),
            there=self.there(),
            size=size,
            length=length,
            qos=qos,
            value=value,
            waited=waited,
            slack=slack,
            start=self.starts(),
            waiting=np.array(self._state.backlog + max(len(self._state.queue) - pool.ready, 0)),
            suspended=np.array(len(self._state.suspended)),
        )

    def _slack(self, task: Task) -> int:
        """Return in how many steps a task can no longer start in time; at most the horizon."""
        if task.latest_start_s == inf:
            return self.pool.horizon
        steps = floor((task.latest_start_s - self._now) / self.pool.step_s + _NOISE)
        return min(steps, self.pool.horizon)

    def _powered(self, begins: Floats) -> Floats:
        """Return (H,) the share of the first resource that has power as each step begins."""
        state = self._state
        amount = np.full(len(begins), float(state.capacity[:, 0].sum()))
        for step in state.steps_through(float(begins[-1])):
            amount[begins >= step.time_s] += step.change[0]
        share: Floats = np.clip(amount / self._capacity[0], 0.0, 1.0)
        return share


def _rest(allocation: Allocation, left_s: float) -> Task:
    """Return what is left of a suspended allocation, as a task."""
    task = allocation.task
    machines = task.machines if task.gang else tuple([machine for machine, _ in allocation.on])
    return Task(
        task.index, task.job_index, task.submit_time_s, task.request, allocation.count,
        estimate_s=left_s, machines=machines,
    )  # fmt: skip
